package oci

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Image is an image in an archive.
type Image struct {
	Name   string
	Digest string
}

// Read lists the images of an archive without reading their layers.
func Read(archive string) ([]Image, error) {
	file, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	images, err := readIndex(tar.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	return images, nil
}

func readIndex(in *tar.Reader) ([]Image, error) {
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("no index.json in it: write an archive in the OCI layout")
		}
		if err != nil {
			return nil, fmt.Errorf("not a tar archive: %w", err)
		}
		if header.Name == "index.json" || header.Name == "./index.json" {
			return parseIndex(in)
		}
	}
}

func parseIndex(content io.Reader) ([]Image, error) {
	var parsed index
	if err := json.NewDecoder(content).Decode(&parsed); err != nil {
		return nil, fmt.Errorf("index.json: %w", err)
	}
	if len(parsed.Manifests) == 0 {
		return nil, errors.New("index.json names no image")
	}
	images := make([]Image, 0, len(parsed.Manifests))
	for _, entry := range parsed.Manifests {
		name := entry.Annotations[nameAnnotation]
		if name == "" {
			return nil, fmt.Errorf("the image has no name: write it into the annotation %s in index.json, as in registry.local/thing:1", nameAnnotation)
		}
		images = append(images, Image{Name: name, Digest: entry.Digest})
	}
	return images, nil
}
