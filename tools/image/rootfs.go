package main

import (
	"archive/tar"
	"bytes"
	"embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// A file or, without content, a directory of the image. All belong to root, and none to be written by anybody:
// the operator only reads.
type file struct {
	path    string // without a leading slash
	mode    os.FileMode
	content []byte
}

//go:embed etc
var etc embed.FS

// systemFiles are the files beside the program, parents first: names for the two users, how names are
// resolved, and whom to trust. There is no shell, and no directory that could be written to.
func systemFiles() []file {
	text := func(path string) file {
		content, err := etc.ReadFile(path)
		if err != nil {
			panic(err) // It was compiled in.
		}
		return file{path, 0o644, content}
	}
	return []file{
		{path: "etc", mode: os.ModeDir | 0o755},
		text("etc/group"),
		text("etc/nsswitch.conf"),
		text("etc/passwd"),
		{path: "etc/ssl", mode: os.ModeDir | 0o755},
		{path: "etc/ssl/certs", mode: os.ModeDir | 0o755},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, publicRoots()},
	}
}

// archive puts the files into a tar, which says nothing of the machine or the hour: the files' time is 1970, so
// that a layer that didn't change keeps its digest from version to version.
func archive(files []file) ([]byte, error) {
	var buffer bytes.Buffer
	out := tar.NewWriter(&buffer)
	for _, f := range files {
		header := &tar.Header{
			Name:     f.path,
			Mode:     int64(f.mode.Perm()),
			Typeflag: tar.TypeReg,
			Size:     int64(len(f.content)),
			ModTime:  time.Unix(0, 0),
			Format:   tar.FormatUSTAR,
		}
		if f.mode.IsDir() {
			header.Typeflag = tar.TypeDir
			header.Name += "/"
		}
		if err := out.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("failed to archive %s: %w", f.path, err)
		}
		if _, err := out.Write(f.content); err != nil {
			return nil, fmt.Errorf("failed to archive %s: %w", f.path, err)
		}
	}
	if err := out.Close(); err != nil {
		return nil, fmt.Errorf("failed to end the archive: %w", err)
	}
	return buffer.Bytes(), nil
}

func writeDirectory(root string, files []file) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	// Nothing lands outside, whatever a path says.
	inside, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer inside.Close()
	for _, f := range files {
		if err := writeOne(inside, f); err != nil {
			return fmt.Errorf("failed to write %s: %w", f.path, err)
		}
	}
	return nil
}

func writeOne(root *os.Root, f file) error {
	if f.mode.IsDir() {
		return root.MkdirAll(f.path, f.mode.Perm())
	}
	if err := root.WriteFile(f.path, f.content, f.mode.Perm()); err != nil {
		return err
	}
	// Whatever the umask is.
	return root.Chmod(f.path, f.mode.Perm())
}

// readArchive is the contrary of archive; every entry must be what archive writes.
func readArchive(in io.Reader) ([]file, error) {
	var files []file
	archive := tar.NewReader(in)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("failed to read a layer: %w", err)
		}
		f := file{path: filepath.Clean(header.Name), mode: os.FileMode(header.Mode)}
		switch {
		case header.Typeflag == tar.TypeDir:
			f.mode |= os.ModeDir
		case header.Typeflag != tar.TypeReg:
			return nil, fmt.Errorf("%s is neither a file nor a directory", header.Name)
		}
		if header.Uid != 0 || header.Gid != 0 {
			return nil, fmt.Errorf("%s belongs to %d:%d, not to root", header.Name, header.Uid, header.Gid)
		}
		if f.content, err = io.ReadAll(archive); err != nil {
			return nil, fmt.Errorf("failed to read %s: %w", header.Name, err)
		}
		files = append(files, f)
	}
}
