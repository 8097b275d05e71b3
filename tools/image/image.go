package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// What each image promises. The Dockerfile must say the same of the operator's, which its test sees to.
const (
	licence = "Apache-2.0"
	// The number, and not the name, is what `runAsNonRoot` can check.
	user = "65532:65532"
)

// maxBytes is the size of everything in it, unpacked, as it lies on each node.
var maxBytes = 30 << 20

// subject is a program that has an image. Its name is also that of the image.
type subject struct {
	name    string
	summary string
}

var (
	operator = subject{
		"run-operator",
		"A Kubernetes controller that turns a Run object into exactly one run at the Run Orchestration Service",
	}
	tool = subject{
		"kubectl-runop",
		"The tool of run-operator for Jobs in a cluster: submits, awaits, explains and changes Runs",
	}
	referenceService = subject{
		"reference-service",
		"A Run Orchestration Service to try run-operator with; it runs nothing",
	}
)

// subjectOf finds the program of this name.
func subjectOf(name string) (subject, error) {
	for _, known := range []subject{operator, tool, referenceService} {
		if known.name == name {
			return known, nil
		}
	}
	return subject{}, fmt.Errorf("there is no image of %q", name)
}

// entrypoint is the program's path in the image.
func (s subject) entrypoint() string { return "/" + s.name }

// release is what one image is made from.
type release struct {
	of       subject
	program  string // the file
	version  string
	revision string // the commit
	created  time.Time
}

// annotations stand in the manifest, and as labels in the configuration: registries read the one, engines the other.
func (r release) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       r.of.name,
		"org.opencontainers.image.description": r.of.summary,
		"org.opencontainers.image.licenses":    licence,
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.revision,
		"org.opencontainers.image.created":     r.created.Format(time.RFC3339),
	}
}

// build makes the image: one layer that hardly ever changes, and the program above it.
func build(from release) (v1.Image, error) {
	content, err := os.ReadFile(from.program)
	if err != nil {
		return nil, fmt.Errorf("failed to read the program: %w", err)
	}
	architecture, err := staticProgram(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from.program, err)
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: architecture,
		OS:           "linux",
		Created:      v1.Time{Time: from.created},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       user,
			Entrypoint: []string{from.of.entrypoint()},
			WorkingDir: "/",
			Labels:     from.annotations(),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("failed to configure the image: %w", err)
	}
	for _, part := range []struct {
		files []file
		by    string
	}{
		{systemFiles(), "users, name resolution, public certification authorities"},
		{[]file{{from.of.name, 0o755, content}}, from.of.name + " " + from.version},
	} {
		if img, err = appendLayer(img, part.files, part.by, from.created); err != nil {
			return nil, err
		}
	}
	return mutate.Annotations(img, from.annotations()).(v1.Image), nil
}

func appendLayer(img v1.Image, files []file, by string, created time.Time) (v1.Image, error) {
	content, err := archive(files)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	layer, err := tarball.LayerFromOpener(open,
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("failed to make a layer: %w", err)
	}
	return mutate.Append(img, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: created}, CreatedBy: by},
	})
}

// write leaves the layout `out` and the archive `out.tar`, in the place of earlier ones.
func write(from release, out string) (v1.Hash, error) {
	img, err := build(from)
	if err != nil {
		return v1.Hash{}, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return v1.Hash{}, err
	}
	// What fails halfway leaves nothing that looks whole.
	part := out + ".part"
	if err := os.RemoveAll(part); err != nil {
		return v1.Hash{}, err
	}
	path, err := layout.Write(part, empty.Index)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("failed to write the layout: %w", err)
	}
	err = path.AppendImage(img,
		layout.WithPlatform(v1.Platform{OS: config.OS, Architecture: config.Architecture}),
		layout.WithAnnotations(from.names()))
	if err != nil {
		return v1.Hash{}, fmt.Errorf("failed to write the layout: %w", err)
	}
	if err := pack(part, out+".tar"); err != nil {
		return v1.Hash{}, fmt.Errorf("failed to write %s.tar: %w", out, err)
	}
	if err := os.RemoveAll(out); err != nil {
		return v1.Hash{}, err
	}
	if err := os.Rename(part, out); err != nil {
		return v1.Hash{}, err
	}
	return img.Digest()
}

// names are what an importer calls the image: containerd and docker go by the first, podman and skopeo by the second.
func (r release) names() map[string]string {
	return map[string]string{
		"io.containerd.image.name":          "docker.io/library/" + r.of.name + ":" + r.version,
		"org.opencontainers.image.ref.name": r.version,
	}
}

// pack makes one tar of a layout, as `ctr images import`, `docker load` and `podman load` read it.
func pack(directory, out string) error {
	var files []file
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == directory {
			return err
		}
		f := file{mode: 0o644}
		if f.path, err = filepath.Rel(directory, path); err != nil {
			return err
		}
		if entry.IsDir() {
			f.mode = os.ModeDir | 0o755
		} else if f.content, err = os.ReadFile(path); err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		return err
	}
	content, err := archive(files)
	if err != nil {
		return err
	}
	if err := os.WriteFile(out+".part", content, 0o644); err != nil {
		return err
	}
	return os.Rename(out+".part", out)
}

// unpack lays the image's files out, as an engine would.
func unpack(from, to string) error {
	img, err := open(from)
	if err != nil {
		return err
	}
	in := mutate.Extract(img)
	defer in.Close()
	files, err := readArchive(in)
	if err != nil {
		return err
	}
	return writeDirectory(to, files)
}
