//go:build chart

package release

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// csv is what the Operator Lifecycle Manager reads of a ClusterServiceVersion, as far as Howdah has it. A field that it doesn't know is an error.
type csv struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		DisplayName    string              `json:"displayName"`
		Description    string              `json:"description"`
		Version        string              `json:"version"`
		Maturity       string              `json:"maturity"`
		MinKubeVersion string              `json:"minKubeVersion"`
		Keywords       []string            `json:"keywords"`
		Provider       map[string]string   `json:"provider"`
		Links          []map[string]string `json:"links"`
		InstallModes   []struct {
			Type      string `json:"type"`
			Supported bool   `json:"supported"`
		} `json:"installModes"`
		RelatedImages []struct {
			Name  string `json:"name"`
			Image string `json:"image"`
		} `json:"relatedImages"`
		CustomResourceDefinitions struct {
			Owned []struct {
				Name        string `json:"name"`
				Version     string `json:"version"`
				Kind        string `json:"kind"`
				DisplayName string `json:"displayName"`
				Description string `json:"description"`
			} `json:"owned"`
		} `json:"customresourcedefinitions"`
		Install struct {
			Strategy string `json:"strategy"`
			Spec     struct {
				ClusterPermissions []permission `json:"clusterPermissions"`
				Permissions        []permission `json:"permissions"`
				Deployments        []struct {
					Name  string                `json:"name"`
					Label map[string]string     `json:"label"`
					Spec  appsv1.DeploymentSpec `json:"spec"`
				} `json:"deployments"`
			} `json:"spec"`
		} `json:"install"`
	} `json:"spec"`
}

type permission struct {
	ServiceAccountName string              `json:"serviceAccountName"`
	Rules              []rbacv1.PolicyRule `json:"rules"`
}

func theBundle(t *testing.T) (map[string]string, csv) {
	t.Helper()
	found, version := files(t, theRelease(t).Dist), csv{}
	must(t, yaml.UnmarshalStrict([]byte(found["bundle/manifests/howdah.clusterserviceversion.yaml"]), &version))
	return found, version
}

// inChart is how many files the chart has in a folder.
func inChart(t *testing.T, folder string) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(repository, "charts/howdah/files", folder))
	must(t, err)
	return len(entries)
}

func TestTheBundleDescribesEveryControllerWithItsRights(t *testing.T) {
	_, version := theBundle(t)
	install := version.Spec.Install
	if version.Kind != "ClusterServiceVersion" || version.Metadata.Name != "howdah.v1.2.3" || version.Spec.Version != "1.2.3" || install.Strategy != "deployment" || version.Spec.MinKubeVersion != "1.33.0" {
		t.Errorf("%+v", version)
	}
	var deployed []string
	for _, deployment := range install.Spec.Deployments {
		pod := deployment.Spec.Template
		deployed = append(deployed, pod.Spec.ServiceAccountName)
		for name, value := range deployment.Spec.Selector.MatchLabels {
			if pod.Labels[name] != value {
				t.Errorf("%s doesn't select its pods", deployment.Name)
			}
		}
	}
	for what, given := range map[string][]permission{"in the cluster": install.Spec.ClusterPermissions, "in the namespace": install.Spec.Permissions} {
		var accounts []string
		for _, one := range given {
			accounts = append(accounts, one.ServiceAccountName)
			if len(one.Rules) == 0 {
				t.Errorf("%s has no rights %s", one.ServiceAccountName, what)
			}
		}
		if !slices.Equal(accounts, slices.Sorted(slices.Values(deployed))) || len(accounts) != inChart(t, "rbac") {
			t.Errorf("%v have rights %s, and %v are deployed", accounts, what, deployed)
		}
	}
	for _, mode := range version.Spec.InstallModes {
		if mode.Supported != (mode.Type == "AllNamespaces") {
			t.Errorf("%+v", mode)
		}
	}
	if len(version.Spec.InstallModes) != 4 {
		t.Errorf("install modes: %+v", version.Spec.InstallModes)
	}
}

func TestTheBundleHasEachKindThatItOwnsAndAnExampleOfIt(t *testing.T) {
	found, version := theBundle(t)
	var examples []struct{ Kind, APIVersion string }
	must(t, json.Unmarshal([]byte(version.Metadata.Annotations["alm-examples"]), &examples))
	for _, owned := range version.Spec.CustomResourceDefinitions.Owned {
		manifest := found["bundle/manifests/customresourcedefinition_"+owned.Name+".yaml"]
		if !strings.Contains(manifest, "kind: "+owned.Kind+"\n") || owned.Version != "v1alpha1" || len(owned.Description) < 20 {
			t.Errorf("%+v: %.100s", owned, manifest)
		}
		has := slices.ContainsFunc(examples, func(e struct{ Kind, APIVersion string }) bool {
			return e.Kind == owned.Kind && e.APIVersion == "howdah.dev/v1alpha1"
		})
		if !has {
			t.Errorf("there is no example of %s", owned.Kind)
		}
	}
	if count := len(version.Spec.CustomResourceDefinitions.Owned); count != inChart(t, "crds") || strings.Count(found["SHA256SUMS"], "  bundle/manifests/customresourcedefinition_") != count {
		t.Errorf("it owns %d kinds", count)
	}
}

func TestTheBundleHasOnlyWhatTheOperatorLifecycleManagerInstalls(t *testing.T) {
	found, _ := theBundle(t)
	known := []string{"ClusterServiceVersion", "CustomResourceDefinition", "ClusterRole", "Service", "PodDisruptionBudget"}
	for name, content := range found {
		if !strings.HasPrefix(name, "bundle/manifests/") {
			continue
		}
		parsed := object{}
		must(t, yaml.Unmarshal([]byte(content), &parsed))
		if !slices.Contains(known, parsed.text("kind")) || parsed.text("metadata", "namespace") != "" {
			t.Errorf("%s is a %s in namespace %q", name, parsed.text("kind"), parsed.text("metadata", "namespace"))
		}
	}
	annotations := struct{ Annotations map[string]string }{}
	must(t, yaml.UnmarshalStrict([]byte(found["bundle/metadata/annotations.yaml"]), &annotations))
	for name, value := range annotations.Annotations {
		if !strings.Contains(found["bundle/bundle.Dockerfile"], "LABEL "+name+"="+value+"\n") {
			t.Errorf("the image of the bundle has no label %s=%s", name, value)
		}
	}
	if len(annotations.Annotations) != 6 {
		t.Errorf("%+v", annotations)
	}
	if policies := found["policies.yaml"]; strings.Count(policies, "kind: ValidatingAdmissionPolicy\n") < 6 || !strings.Contains(policies, "system:serviceaccount:howdah-system:") {
		t.Errorf("the policies: %.300s", policies)
	}
}

func TestTheBundleNamesEveryImageByItsDigest(t *testing.T) {
	_, version := theBundle(t)
	images := map[string]string{}
	for _, related := range version.Spec.RelatedImages {
		images[related.Name] = related.Image
	}
	r := theRelease(t)
	for _, name := range r.Images {
		reference := r.Repository + "/" + name + ":1.2.3"
		if want := reference + "@" + digests(t, r)[reference]; images[name] != want {
			t.Errorf("%s is %s, and not %s", name, images[name], want)
		}
	}
	if images["postgresql-17"] != r.Postgres["17"] || images["postgresql-18"] == "" || version.Metadata.Annotations["containerImage"] == "" {
		t.Errorf("images: %v", images)
	}
}
