package release

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Names inside the bundle for the Operator Lifecycle Manager.
const (
	bundleName     = "bundle"
	bundlePackage  = "howdah"
	bundleChannel  = "alpha"
	csvName        = "howdah.clusterserviceversion.yaml"
	policiesName   = "policies.yaml"
	manifestsPlace = "manifests/"
	metadataPlace  = "metadata/"
)

// object of a manifest.
type object map[string]any

func (o object) text(path ...string) string {
	text, _ := o.at(path...).(string)
	return text
}

func (o object) at(path ...string) any {
	var found any = map[string]any(o)
	for _, name := range path {
		inner, is := found.(map[string]any)
		if !is {
			return nil
		}
		found = inner[name]
	}
	return found
}

func (o object) list(path ...string) []object {
	values, _ := o.at(path...).([]any)
	var all []object
	for _, value := range values {
		if inner, is := value.(map[string]any); is {
			all = append(all, inner)
		}
	}
	return all
}

// writeBundle writes what the Operator Lifecycle Manager installs: bundle/manifests and bundle/metadata, made of the manifests that the chart
// renders. It knows no admission policies and no FlowSchema, so these are in a file of their own.
func (r *Release) writeBundle(documents []string) error {
	var objects []object
	var policies []string
	for _, document := range documents {
		parsed := object{}
		if err := yaml.Unmarshal([]byte(document), &parsed); err != nil {
			return err
		}
		if kind := parsed.text("kind"); strings.HasPrefix(kind, "ValidatingAdmissionPolicy") || kind == "FlowSchema" || kind == "PriorityLevelConfiguration" {
			policies = append(policies, document)
			continue
		}
		objects = append(objects, parsed)
	}
	version, err := r.clusterServiceVersion(objects)
	if err != nil {
		return err
	}
	files := map[string]object{
		manifestsPlace + csvName:           version,
		metadataPlace + "annotations.yaml": {"annotations": bundleLabels()},
	}
	for _, each := range beside(objects) {
		files[manifestsPlace+strings.ToLower(each.text("kind"))+"_"+each.text("metadata", "name")+".yaml"] = each
	}
	for name, content := range files {
		text, err := yaml.Marshal(content)
		if err != nil {
			return err
		}
		name = path.Join(bundleName, name)
		if err := firstError(os.MkdirAll(filepath.Dir(r.path(name)), 0o755), r.write(name, text)); err != nil {
			return err
		}
	}
	about := "# Admission policies and the FlowSchema of Howdah " + r.Source.Version + ", which a bundle can't have. Install the bundle into " + namespace + ", and apply them.\n"
	return firstError(r.write(policiesName, []byte(about+strings.Join(policies, "---\n"))), r.write(bundleName+"/bundle.Dockerfile", dockerfile()))
}

func bundleLabels() map[string]any {
	const prefix = "operators.operatorframework.io.bundle."
	return map[string]any{
		prefix + "mediatype.v1": "registry+v1", prefix + "manifests.v1": manifestsPlace, prefix + "metadata.v1": metadataPlace,
		prefix + "package.v1": bundlePackage, prefix + "channels.v1": bundleChannel, prefix + "channel.default.v1": bundleChannel,
	}
}

// dockerfile builds the image of the bundle with any builder of images.
func dockerfile() []byte {
	text := "FROM scratch\n"
	labels := bundleLabels()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		text += fmt.Sprintf("LABEL %s=%v\n", name, labels[name])
	}
	return []byte(text + "COPY manifests /manifests/\nCOPY metadata /metadata/\n")
}

// beside the ClusterServiceVersion are the kinds, and what no controller's account is given.
func beside(objects []object) []object {
	var files []object
	for _, each := range objects {
		switch kind := each.text("kind"); {
		case slices.Contains([]string{"Namespace", "Deployment", "ServiceAccount", "RoleBinding", "ClusterRoleBinding"}, kind):
		case (kind == "Role" || kind == "ClusterRole") && len(accountsOf(objects, each)) > 0:
		default:
			without := maps.Clone(each)
			if metadata, is := each["metadata"].(map[string]any); is {
				metadata = maps.Clone(metadata)
				delete(metadata, "namespace") // that of the bundle
				without["metadata"] = metadata
			}
			files = append(files, without)
		}
	}
	return files
}

// accountsOf are the accounts that a role is bound to.
func accountsOf(objects []object, role object) []string {
	var accounts []string
	for _, binding := range objects {
		if binding.text("kind") != role.text("kind")+"Binding" || binding.text("roleRef", "name") != role.text("metadata", "name") ||
			binding.text("metadata", "namespace") != role.text("metadata", "namespace") {
			continue
		}
		for _, subject := range binding.list("subjects") {
			accounts = append(accounts, subject.text("name"))
		}
	}
	return accounts
}

// permissions of the accounts by roles of a kind.
func permissions(objects []object, kind string) []any {
	rules := map[string][]any{}
	for _, role := range objects {
		if role.text("kind") != kind {
			continue
		}
		for _, account := range accountsOf(objects, role) {
			given, _ := role["rules"].([]any)
			rules[account] = append(rules[account], given...)
		}
	}
	var all []any
	for _, account := range slices.Sorted(maps.Keys(rules)) {
		all = append(all, map[string]any{"serviceAccountName": account, "rules": rules[account]})
	}
	return all
}

// clusterServiceVersion is the description of this version.
func (r *Release) clusterServiceVersion(objects []object) (object, error) {
	examples, err := r.examples()
	if err != nil {
		return nil, err
	}
	var deployments, kinds, modes []any
	for _, each := range objects {
		switch each.text("kind") {
		case "Deployment":
			deployments = append(deployments, map[string]any{"name": each.text("metadata", "name"), "label": each.at("metadata", "labels"), "spec": each["spec"]})
		case "CustomResourceDefinition":
			kinds = append(kinds, ownedKind(each))
		}
	}
	for _, mode := range []string{"OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"} {
		modes = append(modes, map[string]any{"type": mode, "supported": mode == "AllNamespaces"})
	}
	return object{
		"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
		"metadata": map[string]any{
			"name": bundlePackage + ".v" + r.Source.Version,
			"annotations": map[string]any{
				"alm-examples": examples, "capabilities": "Deep Insights", "categories": "Database", "createdAt": r.Time.UTC().Format(time.RFC3339),
				"containerImage": imageOf(deployments), "operatorframework.io/suggested-namespace": namespace,
			},
		},
		"spec": map[string]any{
			"displayName": "Howdah", "version": r.Source.Version, "maturity": bundleChannel, "minKubeVersion": oldestKubernetes,
			"description":               "PostgreSQL on Kubernetes as a suite of small controllers: lifecycle, failover, backup, restore, upgrade and connection pooling. The admission policies are in " + policiesName + " of the release.",
			"keywords":                  []any{"postgresql", "database", "backup", "operator"},
			"provider":                  map[string]any{"name": "Howdah"},
			"links":                     []any{map[string]any{"name": "Howdah", "url": "https://howdah.dev"}},
			"installModes":              modes,
			"customresourcedefinitions": map[string]any{"owned": kinds},
			"relatedImages":             relatedImages(deployments),
			"install": map[string]any{"strategy": "deployment", "spec": map[string]any{
				"clusterPermissions": permissions(objects, "ClusterRole"), "permissions": permissions(objects, "Role"), "deployments": deployments,
			}},
		},
	}, nil
}

func ownedKind(crd object) map[string]any {
	kind, about := crd.text("spec", "names", "kind"), ""
	versions := crd.list("spec", "versions")
	if len(versions) > 0 {
		about = strings.Join(strings.Fields(versions[0].text("schema", "openAPIV3Schema", "description")), " ")
	}
	owned := map[string]any{"name": crd.text("metadata", "name"), "kind": kind, "displayName": kind, "description": cmp.Or(about, kind)}
	if len(versions) > 0 {
		owned["version"] = versions[0].text("name")
	}
	return owned
}

// examples are one object of each kind, as JSON, from the samples of the repository.
func (r *Release) examples() (string, error) {
	files, err := filepath.Glob(r.inSource("config/samples/*.yaml"))
	if err != nil {
		return "", err
	}
	var examples []object
	seen := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			sample := object{}
			if err := yaml.Unmarshal([]byte(document), &sample); err != nil {
				return "", fmt.Errorf("%s: %w", file, err)
			}
			kind := sample.text("kind")
			if strings.HasPrefix(sample.text("apiVersion"), "howdah.dev/") && !seen[kind] {
				seen[kind] = true
				examples = append(examples, sample)
			}
		}
	}
	text, err := json.MarshalIndent(examples, "", "  ")
	return string(text), err
}

// imageOf the first controller.
func imageOf(deployments []any) string {
	for _, each := range relatedImages(deployments) {
		return object(each.(map[string]any)).text("image")
	}
	return ""
}

// relatedImages are all that a cluster without a way out has to mirror: those that the manifests of the controllers name, as their own or
// in a flag.
func relatedImages(deployments []any) []any {
	images := map[string]string{}
	for _, each := range deployments {
		deployment := object(each.(map[string]any))
		for _, container := range deployment.list("spec", "template", "spec", "containers") {
			images[container.text("name")] = container.text("image")
			arguments, _ := container["args"].([]any)
			for _, argument := range arguments {
				maps.Copy(images, imagesIn(fmt.Sprint(argument)))
			}
		}
	}
	var all []any
	for _, name := range slices.Sorted(maps.Keys(images)) {
		all = append(all, map[string]any{"name": name, "image": images[name]})
	}
	return all
}

// imagesIn a flag of a controller, by name.
func imagesIn(argument string) map[string]string {
	images := map[string]string{}
	flag, value, _ := strings.Cut(argument, "=")
	switch flag {
	case "--agent-image", "--pgbouncer-image":
		images[strings.TrimSuffix(strings.TrimPrefix(flag, "--"), "-image")] = value
	case "--postgres-images":
		for one := range strings.SplitSeq(value, ",") {
			if major, image, found := strings.Cut(one, "="); found {
				images["postgresql-"+major] = image
			}
		}
	}
	return images
}
