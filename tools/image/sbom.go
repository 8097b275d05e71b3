package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// materials is what a bill of materials is made from.
type materials struct {
	raw     []byte    // as cargo-cyclonedx wrote it
	crates  []string  // NAME@VERSION of all that may be in it, ours included
	linked  []string  // NAME@VERSION of what the compiler links in beside the crates
	created time.Time // the time of the source
}

// The checkout's path, in references to our own crate.
var ownPath = regexp.MustCompile(`path\+file://[^"]*#`)

// settle takes what differs from build to build out of a bill of materials: the serial number, the hour, the
// checkout's path, the order. It adds what cargo doesn't know of.
func settle(from materials) (*cdx.BOM, error) {
	var bom cdx.BOM
	decoder := json.NewDecoder(bytes.NewReader(ownPath.ReplaceAll(from.raw, []byte("path+file:///src#"))))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&bom); err != nil {
		return nil, fmt.Errorf("failed to decode the bill of materials: %w", err)
	}
	if bom.Metadata == nil || bom.Metadata.Component == nil || bom.Components == nil || bom.Dependencies == nil {
		return nil, errors.New("the bill of materials lacks its subject, its components or their dependencies")
	}
	subject := bom.Metadata.Component
	bom.SerialNumber = ""
	bom.Metadata.Timestamp = from.created.Format(time.RFC3339)
	// The library is in the program, and the reference service isn't shipped.
	subject.Components = nil
	subject.PackageURL = "pkg:cargo/" + subject.Name + "@" + subject.Version
	if err := keep(&bom, from.crates); err != nil {
		return nil, err
	}
	for _, linked := range from.linked {
		link(&bom, linked, "pkg:generic/"+linked, "Linked into the program.")
	}
	roots, err := rootsModule()
	if err != nil {
		return nil, err
	}
	link(&bom, roots, "pkg:golang/"+roots, "The image's public certification authorities.")
	sortAll(&bom)
	return &bom, nil
}

// keep leaves the crates that are built into the program. The tool also lists some that only a test's
// dependencies turn on; one that is missing is an error.
func keep(bom *cdx.BOM, crates []string) error {
	wanted := map[string]bool{}
	for _, crate := range crates {
		wanted[crate] = true
	}
	subject := bom.Metadata.Component
	delete(wanted, subject.Name+"@"+subject.Version)
	kept, refs := []cdx.Component{}, map[string]bool{subject.BOMRef: true}
	for _, component := range *bom.Components {
		name := component.Name + "@" + component.Version
		if !wanted[name] {
			continue
		}
		delete(wanted, name)
		refs[component.BOMRef] = true
		kept = append(kept, component)
	}
	if len(wanted) > 0 {
		return fmt.Errorf("the bill of materials lacks %v", sortedKeys(wanted))
	}
	dependencies := []cdx.Dependency{}
	for _, dependency := range *bom.Dependencies {
		if !refs[dependency.Ref] {
			continue
		}
		if dependency.Dependencies != nil {
			on := slices.DeleteFunc(slices.Clone(*dependency.Dependencies), func(ref string) bool { return !refs[ref] })
			dependency.Dependencies = &on
		}
		dependencies = append(dependencies, dependency)
	}
	bom.Components, bom.Dependencies = &kept, &dependencies
	return nil
}

// link adds a component that our own crate depends on.
func link(bom *cdx.BOM, nameAtVersion, purl, description string) {
	name, version, _ := strings.Cut(nameAtVersion, "@")
	*bom.Components = append(*bom.Components, cdx.Component{
		Type:        cdx.ComponentTypeLibrary,
		BOMRef:      purl,
		Name:        name,
		Version:     version,
		Description: description,
		Scope:       cdx.ScopeRequired,
		PackageURL:  purl,
	})
	for i, dependency := range *bom.Dependencies {
		if dependency.Ref == bom.Metadata.Component.BOMRef && dependency.Dependencies != nil {
			on := append(*dependency.Dependencies, purl)
			(*bom.Dependencies)[i].Dependencies = &on
		}
	}
	*bom.Dependencies = append(*bom.Dependencies, cdx.Dependency{Ref: purl})
}

// rootsModule is the Go module, MODULE@VERSION, that the image's certificates come from.
func rootsModule() (string, error) {
	const module = "golang.org/x/crypto/x509roots/fallback"
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return module + "@" + dependency.Version, nil
			}
		}
	}
	return "", fmt.Errorf("failed to find the version of %s, which this program was built with", module)
}

func sortAll(bom *cdx.BOM) {
	slices.SortFunc(*bom.Components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	slices.SortFunc(*bom.Dependencies, func(a, b cdx.Dependency) int { return strings.Compare(a.Ref, b.Ref) })
	for _, dependency := range *bom.Dependencies {
		if dependency.Dependencies != nil {
			slices.Sort(*dependency.Dependencies)
		}
	}
}

func sortedKeys(of map[string]bool) []string {
	keys := []string{}
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// encode writes it down, and holds it to CycloneDX's own schema, which lies in the directory `schemas`.
func encode(bom *cdx.BOM, schemas string) ([]byte, error) {
	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false)
	if err := encoder.Encode(bom); err != nil {
		return nil, fmt.Errorf("failed to encode the bill of materials: %w", err)
	}
	if err := hold(out.Bytes(), schemas); err != nil {
		return nil, fmt.Errorf("the bill of materials is not CycloneDX: %w", err)
	}
	return out.Bytes(), nil
}

// writeSBOM reads cargo-cyclonedx's file and the list of crates, and writes what encode makes of them.
func writeSBOM(in, crates, schemas, out string, linked []string, created time.Time) error {
	raw, err := os.ReadFile(in)
	if err != nil {
		return fmt.Errorf("failed to read the bill of materials: %w", err)
	}
	list, err := os.ReadFile(crates)
	if err != nil {
		return fmt.Errorf("failed to read the list of crates: %w", err)
	}
	bom, err := settle(materials{raw, strings.Fields(string(list)), linked, created})
	if err != nil {
		return err
	}
	content, err := encode(bom, schemas)
	if err != nil {
		return err
	}
	return os.WriteFile(out, content, 0o644)
}
