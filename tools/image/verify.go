package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// staticProgram says for which architecture an ELF program is. One that needs a loader or a library, which the
// image hasn't got, is refused.
func staticProgram(content []byte) (string, error) {
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return "", fmt.Errorf("failed to read it as an ELF program: %w", err)
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return "", errors.New("needs a dynamic loader; the image has none")
		}
	}
	if libraries, err := program.ImportedLibraries(); err == nil && len(libraries) > 0 {
		return "", fmt.Errorf("needs %v; the image has no libraries", libraries)
	}
	switch program.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	default:
		return "", fmt.Errorf("is for the machine %s; images are made for x86_64 and aarch64", program.Machine)
	}
}

// open finds the one image of a layout.
func open(path string) (v1.Image, error) {
	found, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("failed to open the layout %s: %w", path, err)
	}
	manifest, err := found.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("failed to read the layout's index: %w", err)
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("the layout holds %d images instead of one", len(manifest.Manifests))
	}
	return found.Image(manifest.Manifests[0].Digest)
}

// verify holds a layout, and the archive beside it, to what the image promises.
func verify(path string) error {
	found, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return fmt.Errorf("failed to open the layout %s: %w", path, err)
	}
	// Every digest and size against the bytes, the index and the layers' uncompressed content included.
	if err := validate.Index(found); err != nil {
		return fmt.Errorf("the layout is not whole: %w", err)
	}
	img, err := open(path)
	if err != nil {
		return err
	}
	made, err := verifyConfig(img)
	if err != nil {
		return err
	}
	manifest, err := found.IndexManifest()
	if err != nil {
		return err
	}
	entry := manifest.Manifests[0]
	if !maps.Equal(entry.Annotations, made.names()) {
		return fmt.Errorf("an importer would call it %v", entry.Annotations)
	}
	if err := verifyFiles(img, made.of); err != nil {
		return err
	}
	return verifyArchive(path)
}

// verifyConfig returns what the image says it was made from.
func verifyConfig(img v1.Image) (release, error) {
	var none release
	config, err := img.ConfigFile()
	if err != nil {
		return none, fmt.Errorf("failed to read the configuration: %w", err)
	}
	manifest, err := img.Manifest()
	if err != nil {
		return none, fmt.Errorf("failed to read the manifest: %w", err)
	}
	if !maps.Equal(manifest.Annotations, config.Config.Labels) {
		return none, errors.New("the manifest's annotations are not the configuration's labels")
	}
	of, err := subjectOf(manifest.Annotations["org.opencontainers.image.title"])
	if err != nil {
		return none, err
	}
	if config.Config.User != user {
		return none, fmt.Errorf("runs as %q, not as %s", config.Config.User, user)
	}
	if !slices.Equal(config.Config.Entrypoint, []string{of.entrypoint()}) || len(config.Config.Cmd) > 0 {
		return none, fmt.Errorf("starts %v %v", config.Config.Entrypoint, config.Config.Cmd)
	}
	made := release{
		of:       of,
		version:  manifest.Annotations["org.opencontainers.image.version"],
		revision: manifest.Annotations["org.opencontainers.image.revision"],
		created:  config.Created.Time,
	}
	if !maps.Equal(manifest.Annotations, made.annotations()) {
		return none, fmt.Errorf("has the annotations %v", manifest.Annotations)
	}
	return made, nil
}

// verifyFiles: those that are promised and no other, so neither a shell nor something to write to.
func verifyFiles(img v1.Image, of subject) error {
	layers, err := img.Layers()
	if err != nil {
		return fmt.Errorf("failed to read the layers: %w", err)
	}
	var files []file
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			return fmt.Errorf("failed to read a layer: %w", err)
		}
		more, err := readArchive(content)
		if err := errors.Join(err, content.Close()); err != nil {
			return err
		}
		files = append(files, more...)
	}
	promised := append(systemFiles(), file{path: of.name, mode: 0o755})
	if len(files) != len(promised) {
		return fmt.Errorf("holds %d files instead of %d", len(files), len(promised))
	}
	size := 0
	for i, f := range files {
		size += len(f.content)
		if f.path != promised[i].path || f.mode != promised[i].mode {
			return fmt.Errorf("holds %s %s instead of %s %s", f.mode, f.path, promised[i].mode, promised[i].path)
		}
		if promised[i].content != nil && !bytes.Equal(f.content, promised[i].content) {
			return fmt.Errorf("%s is not what it should be", f.path)
		}
	}
	if size > maxBytes {
		return fmt.Errorf("is %d bytes large unpacked; %d are allowed", size, maxBytes)
	}
	if err := verifyProgram(img, files[len(files)-1].content); err != nil {
		return fmt.Errorf("%s %w", of.entrypoint(), err)
	}
	return nil
}

func verifyProgram(img v1.Image, content []byte) error {
	architecture, err := staticProgram(content)
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	if config.OS != "linux" || config.Architecture != architecture {
		return fmt.Errorf("says it is for %s/%s, the program is for linux/%s",
			config.OS, config.Architecture, architecture)
	}
	return nil
}

// verifyArchive: the tar is the layout, byte for byte.
func verifyArchive(path string) error {
	archived, err := os.Open(path + ".tar")
	if err != nil {
		return fmt.Errorf("failed to open the archive: %w", err)
	}
	defer archived.Close()
	files, err := readArchive(io.Reader(archived))
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.mode.IsDir() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(path, f.path))
		if err != nil || !bytes.Equal(content, f.content) {
			return fmt.Errorf("the archive's %s is not the layout's", f.path)
		}
	}
	return nil
}
