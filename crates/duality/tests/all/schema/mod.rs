//! A checker of the schemas in `schemas/`: the part of JSON Schema that they use, and no more.
//!
//! A library would check more keywords, for a longer build. A keyword that is not known here is
//! refused, so no schema says more than is checked.

use std::path::Path;
use std::{fmt, fs};

use serde_json::Value;

/// The first place in a value that does not fit its schema, and the demand.
#[derive(Debug, PartialEq)]
pub(crate) struct Unfit {
    place: String,
    demand: String,
}

impl fmt::Display for Unfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.demand)
    }
}

type Result<T = ()> = std::result::Result<T, Unfit>;

fn unfit(place: &str, demand: impl Into<String>) -> Result {
    Err(Unfit { place: place.to_owned(), demand: demand.into() })
}

/// Keywords for readers alone.
const SILENT: [&str; 6] = ["$schema", "$id", "$defs", "title", "description", "format"];

/// Reads `schemas/NAME.json`.
pub(crate) fn schema(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
    let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Whether `value` fits `schema`.
pub(crate) fn check(schema: &Value, value: &Value) -> Result {
    Checker { root: schema }.check(schema, value, "")
}

/// Checks parts of a schema. A part may refer to another one by its path.
struct Checker<'a> {
    root: &'a Value,
}

impl Checker<'_> {
    fn check(&self, schema: &Value, value: &Value, place: &str) -> Result {
        if let Some(fits) = schema.as_bool() {
            return if fits { Ok(()) } else { unfit(place, format!("not allowed: {value}")) };
        }
        for (keyword, demand) in schema.as_object().expect("a schema is an object or a boolean") {
            self.keyword(keyword, demand, schema, value, place)?;
        }
        Ok(())
    }

    fn keyword(
        &self,
        keyword: &str,
        demand: &Value,
        schema: &Value,
        value: &Value,
        place: &str,
    ) -> Result {
        let unfit = |what: &str| unfit(place, format!("{what} {demand}: {value}"));
        let items = || value.as_array().into_iter().flatten();
        let list = || demand.as_array().expect("a list");
        match keyword {
            "$ref" => {
                let path = demand.as_str().and_then(|path| path.strip_prefix('#')).unwrap();
                let part = self.root.pointer(path).expect("a part of the schema");
                self.check(part, value, place)?;
            }
            "type" => {
                let types = demand.as_array().map_or(std::slice::from_ref(demand), Vec::as_slice);
                if !types.iter().any(|one| is_of(one.as_str().unwrap(), value)) {
                    return unfit("no");
                }
            }
            "const" if demand != value => return unfit("not"),
            "enum" if !list().contains(value) => return unfit("none of"),
            "minimum" | "maximum" | "minItems" | "maxItems" => {
                let count = value.as_array().map(|items| items.len() as f64);
                let is_of_items = keyword.ends_with("Items");
                let found = if is_of_items { count } else { value.as_f64() };
                let limit = demand.as_f64().expect("a number");
                let is_least = keyword.starts_with("min");
                if found.is_some_and(|found| if is_least { found < limit } else { found > limit }) {
                    return unfit(keyword);
                }
            }
            "required" | "properties" | "additionalProperties" => {
                self.keys(keyword, demand, schema, value, place)?;
            }
            "items" => {
                let others = schema["prefixItems"].as_array().map_or(0, Vec::len);
                for (index, value) in items().enumerate().skip(others) {
                    self.check(demand, value, &format!("{place}/{index}"))?;
                }
            }
            "prefixItems" => {
                for (index, (value, demand)) in items().zip(list()).enumerate() {
                    self.check(demand, value, &format!("{place}/{index}"))?;
                }
            }
            "oneOf" => self.alternatives(list(), value, place, |fit| fit == 1)?,
            "anyOf" => self.alternatives(list(), value, place, |fit| fit > 0)?,
            "const" | "enum" => {}
            silent if SILENT.contains(&silent) => {}
            other => panic!("the checker does not know the keyword `{other}`"),
        }
        Ok(())
    }

    /// The keywords about the keys of an object.
    fn keys(
        &self,
        keyword: &str,
        demand: &Value,
        schema: &Value,
        value: &Value,
        place: &str,
    ) -> Result {
        match keyword {
            "required" => {
                let names = demand.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                let missing =
                    names.into_iter().find(|name| value.is_object() && value.get(name).is_none());
                if let Some(name) = missing {
                    return unfit(place, format!("{name} is missing"));
                }
            }
            "properties" => {
                for (name, demand) in demand.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        self.check(demand, value, &format!("{place}/{name}"))?;
                    }
                }
            }
            _ => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    if schema["properties"].get(name).is_none() {
                        self.check(demand, value, &format!("{place}/{name}"))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn alternatives(
        &self,
        schemas: &[Value],
        value: &Value,
        place: &str,
        is_right: fn(usize) -> bool,
    ) -> Result {
        let complaints = schemas.iter().filter_map(|schema| self.check(schema, value, place).err());
        let complaints: Vec<String> = complaints.map(|unfit| unfit.to_string()).collect();
        let fit = schemas.len() - complaints.len();
        match is_right(fit) {
            true => Ok(()),
            false => unfit(place, format!("{fit} alternatives fit: {}", complaints.join("; "))),
        }
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the checker does not know the type `{other}`"),
    }
}
