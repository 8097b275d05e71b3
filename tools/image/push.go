package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Credentials are those of `docker login`.
var credentials = remote.WithAuthFromKeychain(authn.DefaultKeychain)

// push copies a layout's image or index to a tag of a registry. A tag that has another digest stays as it is: a version
// that somebody has pulled never changes.
func push(path, tag string) (v1.Hash, error) {
	var none v1.Hash
	to, err := name.NewTag(tag, name.StrictValidation)
	if err != nil {
		return none, fmt.Errorf("failed to read the tag: %w", err)
	}
	top, err := topOf(path)
	if err != nil {
		return none, err
	}
	there, err := publishedBefore(to)
	if err != nil {
		return none, err
	}
	if there != nil {
		if there.Digest != top.Digest {
			return none, fmt.Errorf("%s exists and is %s, not %s: a published version is not overwritten",
				tag, there.Digest, top.Digest)
		}
		return top.Digest, nil
	}
	all, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return none, fmt.Errorf("failed to open the layout %s: %w", path, err)
	}
	if top.MediaType.IsIndex() {
		index, err := all.ImageIndex(top.Digest)
		if err != nil {
			return none, fmt.Errorf("failed to read the index: %w", err)
		}
		err = remote.WriteIndex(to, index, credentials)
		return top.Digest, wrapped(err, "failed to push "+tag)
	}
	img, err := all.Image(top.Digest)
	if err != nil {
		return none, fmt.Errorf("failed to read the image: %w", err)
	}
	return top.Digest, wrapped(remote.Write(to, img, credentials), "failed to push "+tag)
}

func wrapped(err error, doing string) error {
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// published is what the registry has under a reference; nil, if nothing.
func published(reference name.Reference) (*remote.Descriptor, error) {
	found, err := remote.Get(reference, credentials)
	var answer *transport.Error
	if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to look up %s: %w", reference, err)
	}
	return found, nil
}

// publishedBefore is the same before a push. Where nothing was ever pushed, some registries answer 401 or 403 and not
// 404; whether one may push is then for the push to find out.
func publishedBefore(reference name.Reference) (*remote.Descriptor, error) {
	found, err := published(reference)
	var answer *transport.Error
	if errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden) {
		return nil, nil
	}
	return found, err
}

// resolve is the digest of a reference.
func resolve(reference string) (v1.Hash, error) {
	parsed, err := name.ParseReference(reference, name.StrictValidation)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("failed to read the reference: %w", err)
	}
	found, err := published(parsed)
	if err != nil {
		return v1.Hash{}, err
	}
	if found == nil {
		return v1.Hash{}, fmt.Errorf("%s is not published", reference)
	}
	return found.Digest, nil
}

// holds compares a file with the layers of what is published, such as a chart's archive: the digest where it is one of
// them, "absent" where nothing is published.
func holds(reference, path string) (string, error) {
	parsed, err := name.ParseReference(reference, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("failed to read the reference: %w", err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	found, err := publishedBefore(parsed)
	if err != nil {
		return "", err
	}
	if found == nil {
		return "absent", nil
	}
	img, err := found.Image()
	if err != nil {
		return "", fmt.Errorf("failed to read %s: %w", reference, err)
	}
	manifest, err := img.Manifest()
	if err != nil {
		return "", fmt.Errorf("failed to read %s: %w", reference, err)
	}
	for _, layer := range manifest.Layers {
		if layer.Digest.Hex == hex.EncodeToString(sum[:]) {
			return found.Digest.String(), nil
		}
	}
	return "", fmt.Errorf("%s exists and does not hold %s: a published version is not overwritten", reference, path)
}
