// Command pause does nothing until it is told to end: the first container of every Pod. Given a name, it
// writes an image of that name instead, which holds this very program, as a tar that `ctr images import`
// reads, to its standard output.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

func main() {
	if len(os.Args) < 2 {
		pause()
		return
	}
	if err := writeImage(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pause:", err)
		os.Exit(1)
	}
}

// pause waits for its end, and for that of orphans: it is the first process of its PID namespace.
func pause() {
	fmt.Println("pausing")
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

type file struct {
	name string
	mode int64
	data []byte
}

// writeImage writes the format of `docker save`: a layer, its config, and a manifest that names both.
func writeImage(w io.Writer, name string) error {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	layer, err := archive(file{"pause", 0o755, program})
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           runtime.GOOS,
		"config":       map[string]any{"Entrypoint": []string{"/pause"}, "User": "65535:65535"},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	image, err := archive(file{"config.json", 0o644, config}, file{"layer.tar", 0o644, layer}, file{"manifest.json", 0o644, manifest})
	if err != nil {
		return err
	}
	_, err = w.Write(image)
	return err
}

func archive(files ...file) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, f := range files {
		if err := writer.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data))}); err != nil {
			return nil, err
		}
		if _, err := writer.Write(f.data); err != nil {
			return nil, err
		}
	}
	return buffer.Bytes(), writer.Close()
}
