package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// As cargo-cyclonedx writes it, cut down to two crates: a dependency, and one that only a test turns on.
const raw = `{
  "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
  "serialNumber": "urn:uuid:3e671687-395b-41f5-a30f-a58921a69b79",
  "metadata": {
    "timestamp": "2026-11-21T10:00:00.000000000Z",
    "tools": [{"vendor": "CycloneDX", "name": "cargo-cyclonedx", "version": "0.5.9"}],
    "component": {
      "type": "application", "bom-ref": "path+file://CHECKOUT#run-operator@0.1.0", "name": "run-operator",
      "version": "0.1.0", "purl": "pkg:cargo/run-operator@0.1.0?download_url=file://.",
      "components": [{"type": "application", "bom-ref": "path+file://CHECKOUT#run-operator@0.1.0 bin-target-1",
        "name": "reference-service", "version": "0.1.0"}]
    }
  },
  "components": [
    {"type": "library", "bom-ref": "registry#tested@2.0.0", "name": "tested", "version": "2.0.0"},
    {"type": "library", "bom-ref": "registry#needed@1.0.0", "name": "needed", "version": "1.0.0"}
  ],
  "dependencies": [
    {"ref": "registry#tested@2.0.0"},
    {"ref": "registry#needed@1.0.0", "dependsOn": ["registry#tested@2.0.0"]},
    {"ref": "path+file://CHECKOUT#run-operator@0.1.0", "dependsOn": ["registry#needed@1.0.0"]}
  ]
}`

func from(checkout string, crates ...string) materials {
	return materials{
		raw:     []byte(strings.ReplaceAll(raw, "CHECKOUT", checkout)),
		crates:  append([]string{"run-operator@0.1.0"}, crates...),
		linked:  []string{"glibc@2.36"},
		created: time.Unix(1_700_000_000, 0).UTC(),
	}
}

func settled(t *testing.T, from materials) *cdx.BOM {
	t.Helper()
	bom, err := settle(from)
	if err != nil {
		t.Fatal(err)
	}
	return bom
}

func schemas(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "schema")
}

func TestABillListsWhatIsInTheImageAndNothingElse(t *testing.T) {
	bom := settled(t, from("/somebody/checkout", "needed@1.0.0"))
	var names []string
	for _, component := range *bom.Components {
		names = append(names, component.Name)
	}
	wanted := []string{"glibc", "golang.org/x/crypto/x509roots/fallback", "needed"}
	if slices.Sort(names); !slices.Equal(names, wanted) {
		t.Errorf("lists %v", names)
	}
	if bom.Metadata.Component.Components != nil {
		t.Error("lists programs that aren't shipped")
	}
	for _, dependency := range *bom.Dependencies {
		for _, on := range append(orNone(dependency.Dependencies), dependency.Ref) {
			if strings.Contains(on, "tested") {
				t.Errorf("%s refers to a crate that isn't there", dependency.Ref)
			}
		}
	}
}

func orNone(list *[]string) []string {
	if list == nil {
		return nil
	}
	return slices.Clone(*list)
}

func TestABillIsTheSameFromEveryCheckout(t *testing.T) {
	one, errOne := encode(settled(t, from("/somebody/checkout", "needed@1.0.0")), schemas(t))
	other, errOther := encode(settled(t, from("/tmp/a clone", "needed@1.0.0")), schemas(t))
	if errOne != nil || errOther != nil || !bytes.Equal(one, other) {
		t.Fatalf("%v, %v\n%s\n%s", errOne, errOther, one, other)
	}
	for _, word := range []string{"somebody", "serialNumber", "2026-11-21"} {
		if bytes.Contains(one, []byte(word)) {
			t.Errorf("%s stands in it", word)
		}
	}
}

func TestACrateThatTheBillLacksIsAnError(t *testing.T) {
	_, err := settle(from("/src", "needed@1.0.0", "forgotten@3.0.0"))
	if err == nil || !strings.Contains(err.Error(), "forgotten@3.0.0") {
		t.Fatal(err)
	}
}

func TestABillThatIsNotCycloneDXIsAnError(t *testing.T) {
	bom := settled(t, from("/src", "needed@1.0.0"))
	bom.Metadata.Component.Type = "nonsense"
	if _, err := encode(bom, schemas(t)); err == nil || !strings.Contains(err.Error(), "not CycloneDX") {
		t.Fatal(err)
	}
}
