package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// By these names the schema refers to its parts. Nothing is fetched: the files come with the Go module of CycloneDX.
var schemaFiles = map[string]string{
	"http://cyclonedx.org/schema/bom-1.5.schema.json":  "bom-1.5.schema.json",
	"http://cyclonedx.org/schema/spdx.schema.json":     "spdx.schema.json",
	"http://cyclonedx.org/schema/jsf-0.82.schema.json": "jsf-0.82.schemax.json",
}

// hold tries a document on the JSON schema of CycloneDX 1.5.
func hold(document []byte, directory string) error {
	compiler := jsonschema.NewCompiler()
	for name, file := range schemaFiles {
		content, err := os.ReadFile(filepath.Join(directory, file))
		if err != nil {
			return fmt.Errorf("failed to read a schema: %w", err)
		}
		parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		if err != nil {
			return fmt.Errorf("failed to parse %s: %w", file, err)
		}
		if err := compiler.AddResource(name, parsed); err != nil {
			return fmt.Errorf("failed to take up %s: %w", file, err)
		}
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.5.schema.json")
	if err != nil {
		return fmt.Errorf("failed to compile the schema: %w", err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return err
	}
	return schema.Validate(parsed)
}
