package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"howdah.dev/howdah/cmd/howdah-images/internal/image"
)

// krewPlatform is a download of the plugin, as krew describes it.
type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Bin      string       `json:"bin"`
	Files    []krewFile   `json:"files"`
}

type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type krewFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// packClients writes an archive and an SBOM of each program for one platform.
func (r *Release) packClients(ctx context.Context, platform string, licence []byte) (map[string]krewPlatform, error) {
	system, arch, found := strings.Cut(platform, "/")
	if !found {
		return nil, fmt.Errorf("the platform %q has no slash: write it as linux/amd64", platform)
	}
	source := r.Source
	source.OS, source.Arch = system, arch
	binaries, err := image.Compile(ctx, source, filepath.Join(r.Work, system+"-"+arch), r.Clients, nil)
	if err != nil {
		return nil, err
	}
	packed := map[string]krewPlatform{}
	for _, binary := range binaries {
		if packed[binary.Name], err = r.packClient(binary, licence); err != nil {
			return nil, err
		}
	}
	return packed, nil
}

func (r *Release) packClient(binary *image.Binary, licence []byte) (krewPlatform, error) {
	program, err := os.ReadFile(binary.Path)
	if err != nil {
		return krewPlatform{}, err
	}
	archive, err := tarball([]member{
		{path: binary.Name, mode: 0o755, data: program},
		{path: "LICENSE", mode: 0o644, data: licence},
	}, r.Time)
	if err != nil {
		return krewPlatform{}, err
	}
	if err := r.writeSBOM(binary); err != nil {
		return krewPlatform{}, err
	}
	name, sum := r.fileOf(binary)+".tar.gz", sha256.Sum256(archive)
	return krewPlatform{
		Selector: krewSelector{map[string]string{"os": binary.OS, "arch": binary.Arch}},
		URI:      strings.TrimSuffix(r.Downloads, "/") + "/" + name,
		SHA256:   hex.EncodeToString(sum[:]),
		Bin:      binary.Name,
		Files:    []krewFile{{binary.Name, "."}, {"LICENSE", "."}},
	}, r.write(name, archive)
}

// krewManifest describes the plugin to krew, the package manager of kubectl.
func (r *Release) krewManifest(platforms []krewPlatform) ([]byte, error) {
	return yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]any{"name": "howdah"},
		"spec": map[string]any{
			"version":          "v" + r.Source.Version,
			"homepage":         "https://howdah.dev",
			"shortDescription": "Inspect and control PostgresClusters",
			"description": "Shows a PostgresCluster of Howdah with each of its instances, makes another instance the primary, and stops and starts " +
				"a cluster. It needs the CustomResourceDefinitions of Howdah in the cluster.\n",
			"platforms": platforms,
		},
	})
}
