//! A schema of the document.

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use serde_json::{Value, json};

/// Names a schema to the compiler; nothing is fetched.
const NAME: &str = "http://contract/schema.json";

/// A schema, and all that it refers to.
///
/// One of the document's is one of JSON Schema draft 4, but for a few words; the service suite's test
/// `the_schemas_use_only_keywords_shared_with_json_schema` keeps those out of the document.
pub struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    pub fn of(document: &Value, schema: &Value) -> Self {
        let whole = json!({"allOf": [schema], "components": document["components"]});
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V4);
        compiler.add_resource(NAME, whole).unwrap();
        let mut schemas = Schemas::new();
        let index = compiler.compile(NAME, &mut schemas).unwrap();
        Self { schemas, index }
    }

    /// The differences of a value from it: the place in the value, and the fault there.
    pub fn differences(&self, value: &Value) -> Vec<String> {
        match self.schemas.validate(value, self.index) {
            Ok(()) => Vec::new(),
            // The first line names the schema.
            Err(error) => {
                let text = error.to_string();
                text.lines()
                    .skip(1)
                    .map(|line| line.trim().trim_start_matches("- ").to_owned())
                    .collect()
            }
        }
    }
}
