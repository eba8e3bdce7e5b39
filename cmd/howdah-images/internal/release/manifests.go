package release

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	releaseName = "howdah"
	namespace   = "howdah-system"
	// oldestKubernetes is what the manifests are rendered for: what needs a newer one is left out.
	oldestKubernetes = "1.33.0"
)

// writeManifests renders the packaged chart for those who don't use helm: install.yaml has everything, crds.yaml the
// CustomResourceDefinitions alone.
func (r *Release) writeManifests(ctx context.Context) error {
	chart := r.path(filepath.Base(r.Charts[0]) + "-" + r.Source.Version + ".tgz")
	cmd := exec.CommandContext(ctx, r.Helm, "template", releaseName, chart, "--namespace", namespace, "--kube-version", oldestKubernetes)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	rendered, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("helm template: %w\n%s", err, problems.String())
	}
	all, crds, err := sortDocuments(rendered)
	if err != nil {
		return err
	}
	home := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  labels:\n    app.kubernetes.io/part-of: howdah\n  name: %s\n", namespace)
	all = slices.Concat([]string{home}, crds, all)
	about := "# Howdah " + r.Source.Version + ". Apply it with kubectl apply --filename.\n"
	return firstError(
		r.write("install.yaml", []byte(about+strings.Join(all, "---\n"))),
		r.write("crds.yaml", []byte(about+strings.Join(crds, "---\n"))),
		r.writeBundle(all),
	)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// sortDocuments takes the CustomResourceDefinitions out of what helm rendered, which come first, and what is only true of a release
// of helm out of all of it.
func sortDocuments(rendered []byte) (others, crds []string, err error) {
	for document := range strings.SplitSeq(string(rendered), "\n---\n") {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, nil, err
		}
		if len(object) == 0 {
			continue
		}
		forgetHelm(object)
		content, err := yaml.Marshal(object)
		if err != nil {
			return nil, nil, err
		}
		if object["kind"] == "CustomResourceDefinition" {
			crds = append(crds, string(content))
		} else {
			others = append(others, string(content))
		}
	}
	return others, crds, nil
}

// forgetHelm removes the labels and annotations of helm from an object and from the pods that it creates.
func forgetHelm(object map[string]any) {
	for key, value := range object {
		inner, is := value.(map[string]any)
		switch {
		case !is:
		case key == "labels":
			delete(inner, "helm.sh/chart")
			delete(inner, "app.kubernetes.io/managed-by")
		case key == "annotations":
			delete(inner, "helm.sh/resource-policy")
		case key == "metadata" || key == "template" || key == "spec" && inner["template"] != nil:
			forgetHelm(inner)
		}
	}
}

// writeClients compiles what people run on their own machines, packs it with the licence, and writes a manifest for krew.
func (r *Release) writeClients(ctx context.Context) error {
	licence, err := os.ReadFile(r.inSource("LICENSE"))
	if err != nil {
		return err
	}
	var plugin []krewPlatform
	for _, platform := range r.Platforms {
		packed, err := r.packClients(ctx, platform, licence)
		if err != nil {
			return err
		}
		if one, is := packed["kubectl-howdah"]; is {
			plugin = append(plugin, one)
		}
	}
	if len(plugin) == 0 {
		return nil
	}
	manifest, err := r.krewManifest(plugin)
	if err != nil {
		return err
	}
	return r.write("howdah.krew.yaml", manifest)
}
