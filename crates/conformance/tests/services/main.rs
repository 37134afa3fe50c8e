//! The tests of the services over real sockets. They are one program: to link one for each file
//! takes longer than to run them. Tests that change their own process, or count its memory, stand
//! beside this folder.

mod http;
mod http_cases;
mod http_client;
mod http_ending;
mod http_guestbook;
mod http_pages;
mod http_patience;
#[path = "../../../runtime/tests/all/kept_port/mod.rs"]
mod kept_port;
mod lines;
mod plain;
mod relay;
mod relay_clients;
mod relay_rig;
mod relay_upstream;
mod store;
