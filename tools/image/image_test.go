package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// The least that is a program for x86_64 as far as an image goes: the header, and no loader asked for.
func smallest() []byte {
	header := elf.Header64{
		Ident:   [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_DYN),
		Machine: uint16(elf.EM_X86_64),
		Version: uint32(elf.EV_CURRENT),
		Ehsize:  64,
	}
	var out bytes.Buffer
	// Writing to memory doesn't fail.
	_ = binary.Write(&out, binary.LittleEndian, header)
	return out.Bytes()
}

func ofProgram(t *testing.T, content []byte) release {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return release{operator, program, "1.2.3", "0123abc", time.Unix(1_700_000_000, 0).UTC()}
}

func written(t *testing.T) (string, v1.Hash) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image")
	digest, err := write(ofProgram(t, smallest()), out)
	if err != nil {
		t.Fatal(err)
	}
	return out, digest
}

// refused: verify finds the fault, and says so in these words.
func refused(t *testing.T, path, words string) {
	t.Helper()
	if err := verify(path); err == nil || !strings.Contains(err.Error(), words) {
		t.Fatalf("wanted %q, got: %v", words, err)
	}
}

// changed writes a layout like write's, of an image that was changed.
func changed(t *testing.T, change func(v1.Image) (v1.Image, error)) string {
	t.Helper()
	img, err := build(ofProgram(t, smallest()))
	if err != nil {
		t.Fatal(err)
	}
	if img, err = change(img); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "image")
	path, err := layout.Write(out, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	platform := v1.Platform{OS: "linux", Architecture: "amd64"}
	err = path.AppendImage(img, layout.WithAnnotations(release{of: operator, version: "1.2.3"}.names()), layout.WithPlatform(platform))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func configured(change func(*v1.Config)) func(v1.Image) (v1.Image, error) {
	return func(img v1.Image) (v1.Image, error) {
		config, err := img.ConfigFile()
		if err != nil {
			return nil, err
		}
		changed := config.DeepCopy().Config
		change(&changed)
		return mutate.Config(img, changed)
	}
}

func with(f file) func(v1.Image) (v1.Image, error) {
	return func(img v1.Image) (v1.Image, error) {
		return appendLayer(img, []file{f}, "a test", time.Unix(0, 0))
	}
}

func TestAnImageIsWhatItPromises(t *testing.T) {
	path, _ := written(t)
	if err := verify(path); err != nil {
		t.Fatal(err)
	}
}

func TestEachProgramHasAnImageOfItsName(t *testing.T) {
	of := ofProgram(t, smallest())
	of.of = referenceService
	out := filepath.Join(t.TempDir(), "image")
	if _, err := write(of, out); err != nil {
		t.Fatal(err)
	}
	if err := verify(out); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(out, "index.json"))
	if err != nil || !bytes.Contains(index, []byte("docker.io/library/reference-service:1.2.3")) {
		t.Fatalf("%v: %s", err, index)
	}
	if _, err := subjectOf("anything"); err == nil {
		t.Fatal("anything has an image")
	}
}

func TestTheSameProgramMakesTheSameBytes(t *testing.T) {
	one, first := written(t)
	other, second := written(t)
	if first != second {
		t.Fatalf("%s and %s", first, second)
	}
	for _, name := range []string{".tar", "/index.json"} {
		a, errA := os.ReadFile(one + name)
		b, errB := os.ReadFile(other + name)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs", name)
		}
	}
}

func TestAnImageTakesThePlaceOfAnEarlierOne(t *testing.T) {
	out, first := written(t)
	later := ofProgram(t, smallest())
	later.revision = "4567def"
	second, err := write(later, out)
	if err != nil || second == first {
		t.Fatalf("%s, %v", second, err)
	}
	if err := verify(out); err != nil {
		t.Fatal(err)
	}
	blobs, err := os.ReadDir(filepath.Join(out, "blobs", "sha256"))
	// A manifest, a configuration, two layers.
	if err != nil || len(blobs) != 4 {
		t.Fatalf("%d blobs, %v", len(blobs), err)
	}
}

func TestABlobThatWasChangedIsFound(t *testing.T) {
	path, _ := written(t)
	blobs, err := filepath.Glob(filepath.Join(path, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, blob := range blobs {
		content, err := os.ReadFile(blob)
		if err != nil {
			t.Fatal(err)
		}
		broken := bytes.Clone(content)
		broken[len(broken)/2] ^= 1
		if err := os.WriteFile(blob, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := verify(path); err == nil {
			t.Errorf("%s was changed and not found", filepath.Base(blob))
		}
		if err := os.WriteFile(blob, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnArchiveOfAnotherLayoutIsRefused(t *testing.T) {
	path, _ := written(t)
	index := filepath.Join(path, "index.json")
	content, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(index, append(content, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, path, "the archive's index.json")
}

func TestWhatTheImageMustNotBeIsRefused(t *testing.T) {
	tests := map[string]struct {
		change func(v1.Image) (v1.Image, error)
		words  string
	}{
		"root":             {configured(func(c *v1.Config) { c.User = "0" }), `runs as "0"`},
		"a named user":     {configured(func(c *v1.Config) { c.User = "nonroot" }), `runs as "nonroot"`},
		"a command":        {configured(func(c *v1.Config) { c.Cmd = []string{"controller"} }), "starts"},
		"another program":  {configured(func(c *v1.Config) { c.Entrypoint = []string{"/bin/sh"} }), "starts"},
		"other labels":     {configured(func(c *v1.Config) { c.Labels = nil }), "labels"},
		"a shell":          {with(file{"bin/sh", 0o755, []byte("#!")}), "9 files instead of 8"},
		"a place to write": {with(file{"tmp", os.ModeDir | 0o777, nil}), "9 files instead of 8"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { refused(t, changed(t, test.change), test.words) })
	}
}

func TestAnImageThatIsTooLargeIsRefused(t *testing.T) {
	program := ofProgram(t, append(smallest(), make([]byte, maxBytes)...))
	out := filepath.Join(t.TempDir(), "image")
	if _, err := write(program, out); err != nil {
		t.Fatal(err)
	}
	refused(t, out, "bytes large unpacked")
}

func TestAProgramThatNeedsALoaderIsRefused(t *testing.T) {
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	program := ofProgram(t, smallest())
	program.program = shell
	_, err = write(program, filepath.Join(t.TempDir(), "image"))
	if err == nil || !strings.Contains(err.Error(), "dynamic loader") {
		t.Fatal(err)
	}
}

func TestUnpackedItHoldsWhatTheDockerfileCopies(t *testing.T) {
	path, _ := written(t)
	image, files := t.TempDir(), t.TempDir()
	if err := run([]string{"unpack", path, image}); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"rootfs", files}); err != nil {
		t.Fatal(err)
	}
	for _, f := range systemFiles() {
		if f.mode.IsDir() {
			continue
		}
		a, errA := os.ReadFile(filepath.Join(image, f.path))
		b, errB := os.ReadFile(filepath.Join(files, f.path))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs", f.path)
		}
	}
}

func TestOrdinaryCertificatesAreTrusted(t *testing.T) {
	count, rest := 0, publicRoots()
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		count++
	}
	// Mozilla's list has had between 110 and 150 for years.
	if count < 100 {
		t.Fatalf("%d certification authorities", count)
	}
}
