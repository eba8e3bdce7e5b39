package image

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// SBOM is a CycloneDX document of the modules that the linker put into the binary, read from the binary itself.
func (b *Binary) SBOM() ([]byte, error) {
	info, err := buildinfo.ReadFile(b.Path)
	if err != nil {
		return nil, fmt.Errorf("read the modules of %s: %w", b.Path, err)
	}
	sum := sha256.New()
	if err := hashFile(sum, b.Path); err != nil {
		return nil, err
	}
	main := component{
		Type: "application", Name: b.Name, Version: b.Version, Ref: b.Name,
		Hashes:   []hash{{Algorithm: "SHA-256", Content: hex.EncodeToString(sum.Sum(nil))}},
		Licenses: []license{{Expression: "Apache-2.0"}},
	}
	document := sbom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{Component: main}}
	document.Components = append(document.Components, component{
		Type: "library", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
		URL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"), Ref: "std",
	})
	for _, module := range info.Deps {
		document.Components = append(document.Components, moduleComponent(module))
	}
	return json.MarshalIndent(document, "", "  ")
}

func (b *Binary) writeSBOM(path string) error {
	document, err := b.SBOM()
	if err != nil {
		return err
	}
	return writeFile(path, func(w io.Writer) error {
		_, err := w.Write(append(document, '\n'))
		return err
	})
}

func moduleComponent(module *debug.Module) component {
	if module.Replace != nil && module.Replace.Version != "" {
		module = module.Replace
	}
	c := component{Type: "library", Name: module.Path, Version: module.Version, Ref: module.Path}
	c.URL = "pkg:golang/" + module.Path + "@" + module.Version
	return c
}

// The part of CycloneDX 1.6 that is written here.
type sbom struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type     string    `json:"type"`
	Ref      string    `json:"bom-ref"`
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Hashes   []hash    `json:"hashes,omitempty"`
	Licenses []license `json:"licenses,omitempty"`
	URL      string    `json:"purl,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type license struct {
	Expression string `json:"expression"`
}
