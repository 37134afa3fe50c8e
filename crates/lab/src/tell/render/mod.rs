//! The forms of a sheet, one file each.

pub mod html;
pub mod markdown;
pub mod text;
