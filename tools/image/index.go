package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// part is the image of one architecture.
type part struct {
	image    v1.Image
	made     release
	platform v1.Platform
}

// join makes one index of images that are the same but for their architecture.
func join(paths []string) (v1.ImageIndex, release, error) {
	var none release
	parts, err := partsOf(paths)
	if err != nil {
		return nil, none, err
	}
	made := parts[0].made
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	index = mutate.Annotations(index, made.annotations()).(v1.ImageIndex)
	for _, p := range parts {
		platform := p.platform
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        p.image,
			Descriptor: v1.Descriptor{MediaType: types.OCIManifestSchema1, Platform: &platform},
		})
	}
	return index, made, nil
}

// partsOf reads the images, by architecture, and refuses those that don't belong into one index.
func partsOf(paths []string) ([]part, error) {
	if len(paths) == 0 {
		return nil, errors.New("an index needs one image at least")
	}
	var parts []part
	for _, path := range paths {
		read, err := partOf(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, other := range parts {
			if other.platform.Architecture == read.platform.Architecture {
				return nil, fmt.Errorf("%s is a second image for %s", path, read.platform.Architecture)
			}
			if other.made != read.made {
				return nil, fmt.Errorf("%s is %s, and not %s", path, read.made, other.made)
			}
		}
		parts = append(parts, read)
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.platform.Architecture, b.platform.Architecture) })
	return parts, nil
}

func partOf(path string) (part, error) {
	var none part
	img, err := open(path)
	if err != nil {
		return none, err
	}
	made, err := verifyConfig(img)
	if err != nil {
		return none, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return none, fmt.Errorf("failed to read the configuration: %w", err)
	}
	return part{img, made, v1.Platform{OS: config.OS, Architecture: config.Architecture}}, nil
}

// String is what an image was made from, for a message.
func (r release) String() string {
	return fmt.Sprintf("%s %s of commit %s", r.of.name, r.version, r.revision)
}

// writeIndex leaves the layout `out` with the index of the images, and the same as one file, `out.tar`.
// Images of another commit than `revision`, where one is given, are refused: they are left over from an earlier build.
func writeIndex(paths []string, revision, out string) (v1.Hash, error) {
	var none v1.Hash
	index, made, err := join(paths)
	if err != nil {
		return none, err
	}
	if revision != "" && made.revision != revision {
		return none, fmt.Errorf("%s is %s, and not of commit %s", paths[0], made, revision)
	}
	unfinished := out + ".part"
	if err := os.RemoveAll(unfinished); err != nil {
		return none, err
	}
	path, err := layout.Write(unfinished, empty.Index)
	if err != nil {
		return none, fmt.Errorf("failed to write the layout: %w", err)
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(made.names())); err != nil {
		return none, fmt.Errorf("failed to write the layout: %w", err)
	}
	if err := verifyIndex(unfinished); err != nil {
		return none, err
	}
	if err := pack(unfinished, out+".tar"); err != nil {
		return none, fmt.Errorf("failed to write %s.tar: %w", out, err)
	}
	if err := os.RemoveAll(out); err != nil {
		return none, err
	}
	if err := os.Rename(unfinished, out); err != nil {
		return none, err
	}
	return index.Digest()
}

// verifyIndex compares every digest and size in a layout with the bytes, and each image with what images promise.
func verifyIndex(path string) error {
	all, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return fmt.Errorf("failed to open the layout %s: %w", path, err)
	}
	if err := validate.Index(all); err != nil {
		return fmt.Errorf("the layout is not whole: %w", err)
	}
	top, err := topOf(path)
	if err != nil {
		return err
	}
	index, err := all.ImageIndex(top.Digest)
	if err != nil {
		return fmt.Errorf("failed to read the index: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("failed to read the index: %w", err)
	}
	for _, entry := range manifest.Manifests {
		img, err := index.Image(entry.Digest)
		if err != nil {
			return fmt.Errorf("failed to read %s: %w", entry.Digest, err)
		}
		made, err := verifyConfig(img)
		if err != nil {
			return err
		}
		if err := verifyFiles(img, made.of); err != nil {
			return err
		}
	}
	return nil
}

// topOf is the one entry of a layout, which is an image or an index of images.
func topOf(path string) (v1.Descriptor, error) {
	found, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("failed to open the layout %s: %w", path, err)
	}
	manifest, err := found.IndexManifest()
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("failed to read the layout's index: %w", err)
	}
	if len(manifest.Manifests) != 1 {
		return v1.Descriptor{}, fmt.Errorf("the layout has %d entries instead of one", len(manifest.Manifests))
	}
	return manifest.Manifests[0], nil
}
