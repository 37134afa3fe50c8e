//! A checker of the schemas in `schemas/`: the part of JSON Schema that they use, and no more.
//!
//! A library would check more keywords, for a longer build. A keyword that is not known here is
//! refused, so no schema says more than is checked.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Keywords for readers alone.
const SILENT: [&str; 4] = ["$schema", "$id", "title", "description"];

/// Reads `schemas/NAME.json`.
pub(crate) fn schema(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
    let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The first place in `value` that does not fit `schema`, and the demand. `Ok` if the value fits.
pub(crate) fn check(schema: &Value, value: &Value) -> Result<(), String> {
    check_at(schema, value, "")
}

fn check_at(schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    for (keyword, demand) in schema.as_object().expect("a schema is an object") {
        match keyword.as_str() {
            "type" => {
                let types = demand.as_array().map_or(std::slice::from_ref(demand), Vec::as_slice);
                if !types.iter().any(|one| is_of(one.as_str().unwrap(), value)) {
                    return Err(format!("{place}: no {demand}: {value}"));
                }
            }
            "const" if demand != value => return Err(format!("{place}: not {demand}: {value}")),
            "required" => {
                let names = demand.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                let missing =
                    names.into_iter().find(|name| value.is_object() && value.get(name).is_none());
                if let Some(name) = missing {
                    return Err(format!("{place}: {name} is missing"));
                }
            }
            "properties" => {
                for (name, demand) in demand.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        check_at(demand, value, &format!("{place}/{name}"))?;
                    }
                }
            }
            "additionalProperties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    if schema["properties"].get(name).is_none() {
                        check_at(demand, value, &format!("{place}/{name}"))?;
                    }
                }
            }
            "items" => {
                for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                    check_at(demand, value, &format!("{place}/{index}"))?;
                }
            }
            "oneOf" => one_of(demand.as_array().unwrap(), value, place)?,
            "const" => {}
            silent if SILENT.contains(&silent) => {}
            other => panic!("the checker does not know the keyword `{other}`"),
        }
    }
    Ok(())
}

fn one_of(schemas: &[Value], value: &Value, place: &str) -> Result<(), String> {
    let complaints: Vec<String> =
        schemas.iter().filter_map(|schema| check_at(schema, value, place).err()).collect();
    match schemas.len() - complaints.len() {
        1 => Ok(()),
        count => Err(format!("{place}: {count} alternatives fit: {}", complaints.join("; "))),
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
