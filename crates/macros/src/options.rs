//! The options of an attribute: `name = value, …`.

use proc_macro::{Span, TokenStream, TokenTree};

use crate::{Mistake, Result, WORLDS};

#[derive(Default)]
pub(crate) struct Options {
    /// The world, and its place.
    pub(crate) world: Option<(String, Span)>,
    pub(crate) is_paused: bool,
    /// An expression: the seeds.
    pub(crate) simulate: Option<TokenStream>,
}

impl Options {
    /// Reads the options, of which those in `known` may be given.
    pub(crate) fn parse(tokens: TokenStream, known: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut tokens = tokens.into_iter();
        while let Some(token) = tokens.next() {
            let (name, place) = (token.to_string(), token.span());
            if !known.contains(&name.as_str()) {
                let text = format!("unknown option `{name}`; choose from {}", known.join(", "));
                return Err(Mistake::at(place, text));
            }
            match tokens.next() {
                Some(TokenTree::Punct(sign)) if sign.as_char() == '=' => {}
                _ => return Err(Mistake::at(place, format!("write `{name} = VALUE`"))),
            }
            let value = tokens.by_ref().take_while(|token| !is_comma(token));
            options.set(&name, value.collect(), place)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: TokenStream, place: Span) -> Result<()> {
        let text = value.to_string();
        match name {
            "world" => {
                let world = text.trim_matches('"');
                if !WORLDS.iter().any(|(name, _)| *name == world) {
                    let names: Vec<_> = WORLDS.iter().map(|(name, _)| *name).collect();
                    let text =
                        format!("there is no world {text}; choose from {}", names.join(", "));
                    return Err(Mistake::at(place, text));
                }
                self.world = Some((world.to_owned(), place));
            }
            "start_paused" => {
                self.is_paused = match text.as_str() {
                    "true" => true,
                    "false" => false,
                    _ => return Err(Mistake::at(place, "write `start_paused = true`")),
                };
            }
            _ if value.is_empty() => {
                return Err(Mistake::at(place, "write the seeds: `simulate = 0..100`"));
            }
            _ => self.simulate = Some(value),
        }
        Ok(())
    }
}

fn is_comma(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(sign) if sign.as_char() == ',')
}
