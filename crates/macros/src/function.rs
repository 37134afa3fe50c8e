//! An `async fn`, as an attribute gets it.
//!
//! ```text
//!   #[should_panic] pub async fn name ( … ) -> Result<()> { … }
//!   ╰ attributes ─╯ ╰── head ───────╯       ╰ returns ──╯ body
//! ```

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

use crate::{Mistake, Result};

/// The name of the `async fn` within the function that replaces it.
pub(crate) const INNER: &str = "body";

pub(crate) struct Function {
    attributes: TokenStream,
    /// `pub` and the like.
    visibility: TokenStream,
    name: Ident,
    parameters: Group,
    /// The arrow and the type, or nothing.
    returns: TokenStream,
    body: Group,
}

impl Function {
    pub(crate) fn parse(item: TokenStream) -> Result<Self> {
        const WANTED: &str = "write the attribute before an `async fn`";
        let mut tokens = item.into_iter().peekable();
        let mut attributes = TokenStream::new();
        while let Some(TokenTree::Punct(sign)) = tokens.peek()
            && sign.as_char() == '#'
        {
            attributes.extend(tokens.by_ref().take(2));
        }
        let mut head: Vec<TokenTree> = Vec::new();
        let name = loop {
            match tokens.next() {
                Some(TokenTree::Ident(word)) if word.to_string() == "fn" => match tokens.next() {
                    Some(TokenTree::Ident(name)) => break name,
                    _ => return Err(Mistake::at(Span::call_site(), WANTED)),
                },
                Some(token) => head.push(token),
                None => return Err(Mistake::at(Span::call_site(), WANTED)),
            }
        };
        let is_async = |token: &TokenTree| token.to_string() == "async";
        let Some(place) = head.iter().position(is_async) else {
            return Err(Mistake::at(name.span(), WANTED));
        };
        head.remove(place);
        let parameters = match tokens.next() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => group,
            _ => return Err(Mistake::at(name.span(), "the function has no type parameters")),
        };
        let mut rest: Vec<TokenTree> = tokens.collect();
        let body = match rest.pop() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => group,
            _ => return Err(Mistake::at(name.span(), WANTED)),
        };
        let (visibility, returns) = (head.into_iter().collect(), rest.into_iter().collect());
        Ok(Self { attributes, visibility, name, parameters, returns, body })
    }

    pub(crate) fn name(&self) -> &Ident {
        &self.name
    }

    pub(crate) fn attributes(&self) -> &TokenStream {
        &self.attributes
    }

    pub(crate) fn returns_nothing(&self) -> bool {
        self.returns.is_empty()
    }

    pub(crate) fn has_parameters(&self) -> bool {
        !self.parameters.stream().is_empty()
    }

    pub(crate) fn refuse_parameters(&self, text: &str) -> Result<()> {
        match self.has_parameters() {
            true => Err(Mistake::at(self.parameters.span(), text)),
            false => Ok(()),
        }
    }

    /// The function without `async`. It has the original within, and then runs `run`.
    pub(crate) fn replaced_by(&self, attributes: &str, run: &str) -> TokenStream {
        self.replaced(attributes, self.returns.clone(), run)
    }

    /// As [`replaced_by`](Self::replaced_by), without a result.
    pub(crate) fn replaced_by_unit(&self, attributes: &str, run: &str) -> TokenStream {
        self.replaced(attributes, TokenStream::new(), run)
    }

    fn replaced(&self, attributes: &str, returns: TokenStream, run: &str) -> TokenStream {
        let inner = Ident::new(INNER, Span::call_site());
        let mut within = self.original(inner);
        within.extend(parsed(run));
        let mut tokens = parsed(attributes);
        tokens.extend(self.attributes.clone());
        tokens.extend(self.visibility.clone());
        tokens.extend([word("fn"), self.name.clone().into(), parentheses()]);
        tokens.extend(returns);
        tokens.extend([TokenTree::from(Group::new(Delimiter::Brace, within))]);
        tokens
    }

    /// The original function, and a module of its name with tests.
    pub(crate) fn followed_by_tests(&self, tests: &str) -> TokenStream {
        let mut tokens = parsed("#[cfg(test)]");
        tokens.extend(self.original(self.name.clone()));
        tokens.extend(parsed("#[cfg(test)]"));
        let tests = Group::new(Delimiter::Brace, parsed(tests));
        tokens.extend([word("mod"), self.name.clone().into(), tests.into()]);
        tokens
    }

    /// The `async fn`, with another name.
    fn original(&self, name: Ident) -> TokenStream {
        let mut tokens: TokenStream =
            [word("async"), word("fn"), name.into(), self.parameters.clone().into()]
                .into_iter()
                .collect();
        tokens.extend(self.returns.clone());
        tokens.extend([TokenTree::from(self.body.clone())]);
        tokens
    }
}

fn parsed(text: &str) -> TokenStream {
    text.parse().expect("it is Rust")
}

fn word(text: &str) -> TokenTree {
    Ident::new(text, Span::call_site()).into()
}

fn parentheses() -> TokenTree {
    Group::new(Delimiter::Parenthesis, TokenStream::new()).into()
}
