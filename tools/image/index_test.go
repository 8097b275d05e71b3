package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// of writes the image of the least program for a machine.
func of(t *testing.T, machine elf.Machine, change func(*release)) string {
	t.Helper()
	program := smallest()
	binary.LittleEndian.PutUint16(program[18:], uint16(machine))
	from := ofProgram(t, program)
	if change != nil {
		change(&from)
	}
	out := filepath.Join(t.TempDir(), "image")
	if _, err := write(from, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnIndexHasTheImagesOfTwoArchitectures(t *testing.T) {
	amd64, arm64 := of(t, elf.EM_X86_64, nil), of(t, elf.EM_AARCH64, nil)
	var tars [][]byte
	// In either order, the same bytes.
	for _, paths := range [][]string{{amd64, arm64}, {arm64, amd64}} {
		out := filepath.Join(t.TempDir(), "index")
		digest, err := writeIndex(paths, "0123abc", out)
		if err != nil {
			t.Fatal(err)
		}
		if top, err := topOf(out); err != nil || top.Digest != digest {
			t.Fatalf("%v, %v", top, err)
		}
		content, err := os.ReadFile(out + ".tar")
		if err != nil {
			t.Fatal(err)
		}
		tars = append(tars, content)
	}
	if !bytes.Equal(tars[0], tars[1]) {
		t.Error("the order of the images shows in the index")
	}
}

// Proves: I-release
func TestImagesThatDoNotBelongTogetherAreRefused(t *testing.T) {
	tests := map[string]struct {
		other string
		words string
	}{
		"the same architecture": {of(t, elf.EM_X86_64, func(r *release) { r.revision = "4567def" }), "second image for amd64"},
		"another version":       {of(t, elf.EM_AARCH64, func(r *release) { r.version = "1.2.4" }), "1.2.4 of commit 0123abc, and not"},
		"another commit":        {of(t, elf.EM_AARCH64, func(r *release) { r.revision = "4567def" }), "of commit 4567def, and not"},
		"another program":       {of(t, elf.EM_AARCH64, func(r *release) { r.of = referenceService }), "is reference-service"},
	}
	one := of(t, elf.EM_X86_64, nil)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := writeIndex([]string{one, test.other}, "", filepath.Join(t.TempDir(), "index"))
			if err == nil || !strings.Contains(err.Error(), test.words) {
				t.Fatalf("wanted %q, got: %v", test.words, err)
			}
		})
	}
}

func TestImagesOfAnEarlierBuildAreRefused(t *testing.T) {
	paths := []string{of(t, elf.EM_X86_64, nil)}
	_, err := writeIndex(paths, "4567def", filepath.Join(t.TempDir(), "index"))
	if err == nil || !strings.Contains(err.Error(), "and not of commit 4567def") {
		t.Fatal(err)
	}
}

func TestAPublishedVersionIsNotOverwritten(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	tag := strings.TrimPrefix(server.URL, "http://") + "/ours/run-operator:1.2.3"
	index := filepath.Join(t.TempDir(), "index")
	digest, err := writeIndex([]string{of(t, elf.EM_X86_64, nil), of(t, elf.EM_AARCH64, nil)}, "", index)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if pushed, err := push(index, tag); err != nil || pushed != digest {
			t.Fatalf("%s, %v", pushed, err)
		}
	}
	other := of(t, elf.EM_X86_64, nil)
	if _, err := push(other, tag); err == nil || !strings.Contains(err.Error(), "is not overwritten") {
		t.Fatal(err)
	}
	if found, err := resolve(tag); err != nil || found != digest {
		t.Fatalf("%s, %v", found, err)
	}
	// By digest, and whole: both images can be pulled.
	reference, err := name.NewDigest(strings.TrimSuffix(tag, ":1.2.3") + "@" + digest.String())
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(reference)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err := pulled.IndexManifest(); err != nil || len(manifest.Manifests) != 2 {
		t.Fatalf("%v, %v", manifest, err)
	}
}

// Proves: I-release
func TestAFirstVersionIsPushedWhereTheRegistryHidesWhatIsNotThere(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
			hidden, closed := true, false
			server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
				manifest := strings.Contains(request.URL.Path, "/manifests/")
				switch {
				case hidden && manifest && request.Method == http.MethodGet, closed && request.Method != http.MethodGet:
					answer.WriteHeader(status)
					return
				case manifest && request.Method == http.MethodPut:
					hidden = false
				}
				inner.ServeHTTP(answer, request)
			}))
			defer server.Close()
			tag := strings.TrimPrefix(server.URL, "http://") + "/ours/run-operator:1.2.3"
			image := of(t, elf.EM_X86_64, nil)
			if found, err := holds(tag, image+".tar"); err != nil || found != "absent" {
				t.Fatalf("%s, %v", found, err)
			}
			if _, err := resolve(tag); err == nil || strings.Contains(err.Error(), "not published") {
				t.Fatalf("a refusal is no absence: %v", err)
			}
			closed = true
			if _, err := push(image, tag); err == nil || !strings.Contains(err.Error(), "failed to push") {
				t.Fatalf("credentials that can't push: %v", err)
			}
			closed = false
			digest, err := push(image, tag)
			if err != nil {
				t.Fatal(err)
			}
			if found, err := resolve(tag); err != nil || found != digest {
				t.Fatalf("%s, %v", found, err)
			}
			other := of(t, elf.EM_X86_64, func(r *release) { r.revision = "4567def" })
			if _, err := push(other, tag); err == nil || !strings.Contains(err.Error(), "is not overwritten") {
				t.Fatal(err)
			}
		})
	}
}
