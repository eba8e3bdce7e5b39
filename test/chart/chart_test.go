//go:build chart

// Package chart renders the chart in every way that it is meant to be used and looks at what comes out.
package chart

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	helm  = "../../build/bin/helm"
	chart = "../../charts/howdah"
)

var controllers = []string{"backup-controller", "db-controller", "drill-controller", "pooler-controller", "restore-controller", "upgrade-controller"}

func render(t *testing.T, sets ...string) []unstructured.Unstructured {
	t.Helper()
	out, err := try(sets...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return parse(t, out)
}

// parse reads what helm rendered.
func parse(t *testing.T, out []byte) []unstructured.Unstructured {
	t.Helper()
	var objects []unstructured.Unstructured
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(out))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

func try(sets ...string) ([]byte, error) {
	args := []string{"template", "howdah", chart, "--namespace", "howdah-system"}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	return exec.Command(helm, args...).CombinedOutput()
}

func ofKind(objects []unstructured.Unstructured, kind string) (found []unstructured.Unstructured) {
	for _, object := range objects {
		if object.GetKind() == kind {
			found = append(found, object)
		}
	}
	return found
}

func names(objects []unstructured.Unstructured) (found []string) {
	for _, object := range objects {
		found = append(found, object.GetName())
	}
	slices.Sort(found)
	return found
}

func as[T any](t *testing.T, object unstructured.Unstructured) T {
	t.Helper()
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &typed, true); err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return typed
}

func TestEachControllerHasItsOwnDeploymentIdentityBudgetAndMetrics(t *testing.T) {
	objects := render(t)
	for kind, suffix := range map[string]string{"Deployment": "", "ServiceAccount": "", "PodDisruptionBudget": "", "Service": "-metrics", "Role": "-leader-election"} {
		var want []string
		for _, name := range controllers {
			want = append(want, name+suffix)
		}
		if got := names(ofKind(objects, kind)); !slices.Equal(got, want) {
			t.Errorf("%ss are %v, want %v", kind, got, want)
		}
	}
	for _, object := range ofKind(objects, "Deployment") {
		deployment := as[appsv1.Deployment](t, object)
		pod := deployment.Spec.Template.Spec
		if pod.ServiceAccountName != deployment.Name {
			t.Errorf("%s runs as %s", deployment.Name, pod.ServiceAccountName)
		}
		if want := "registry.local/howdah/" + deployment.Name + ":"; !strings.HasPrefix(pod.Containers[0].Image, want) {
			t.Errorf("%s has image %s", deployment.Name, pod.Containers[0].Image)
		}
	}
}

func TestPodsKeepToTheRestrictedPodSecurityStandard(t *testing.T) {
	for _, object := range ofKind(render(t), "Deployment") {
		pod := as[appsv1.Deployment](t, object).Spec.Template.Spec
		if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: pod %+v", object.GetName(), s)
		}
		for _, container := range pod.Containers {
			s := container.SecurityContext
			if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil ||
				!*s.ReadOnlyRootFilesystem || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
				t.Errorf("%s: container %+v", object.GetName(), s)
			}
			if container.LivenessProbe == nil || container.ReadinessProbe == nil {
				t.Errorf("%s has no probes", object.GetName())
			}
		}
	}
}

func TestWatchingSomeNamespacesTakesRolesThereAndNothingElsewhere(t *testing.T) {
	objects := render(t, "watchNamespaces={one,two}", "rbac.aggregate=false")
	places := map[string][]string{}
	for _, object := range ofKind(objects, "Role") {
		if !strings.HasSuffix(object.GetName(), "-leader-election") {
			places[object.GetName()] = append(places[object.GetName()], object.GetNamespace())
		}
	}
	for _, name := range controllers {
		if got := places["howdah-"+name]; !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("%s has Roles in %v", name, got)
		}
	}
	everywhere := []string{"nodes", "persistentvolumes", "storageclasses", "namespaces", "tokenreviews", "subjectaccessreviews"}
	for _, object := range ofKind(objects, "ClusterRole") {
		for _, rule := range as[rbacv1.ClusterRole](t, object).Rules {
			for _, resource := range rule.Resources {
				if !slices.Contains(everywhere, resource) {
					t.Errorf("ClusterRole %s gives %s everywhere", object.GetName(), resource)
				}
			}
		}
	}
	for _, object := range ofKind(objects, "Deployment") {
		if args := as[appsv1.Deployment](t, object).Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--namespaces=one,two") {
			t.Errorf("%s has arguments %v", object.GetName(), args)
		}
	}
}

func TestEveryCRDIsInTheReleaseAndStaysWhenItGoes(t *testing.T) {
	crds := ofKind(render(t, "crds.annotations.own=x", "crds.annotations.helm\\.sh/resource-policy=delete"), "CustomResourceDefinition")
	if len(crds) != 9 {
		t.Errorf("%d CRDs", len(crds))
	}
	for _, crd := range crds {
		if crd.GetAnnotations()["own"] != "x" || crd.GetAnnotations()["controller-gen.kubebuilder.io/version"] == "" {
			t.Errorf("%s has the annotations %v", crd.GetName(), crd.GetAnnotations())
		}
		if crd.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s goes with the release, and every object of it", crd.GetName())
		}
	}
	if crds := ofKind(render(t, "crds.install=false"), "CustomResourceDefinition"); len(crds) != 0 {
		t.Errorf("%d CRDs although crds.install is false", len(crds))
	}
}

func TestOneControllerCanBeSetApartFromTheOthers(t *testing.T) {
	objects := render(t,
		"controllers.backup-controller.replicas=3",
		"controllers.backup-controller.image=example.test/mine:1",
		"controllers.backup-controller.podDisruptionBudget.enabled=false",
		"controllers.backup-controller.env[0].name=HTTPS_PROXY", "controllers.backup-controller.env[0].value=http://proxy:1",
		"image.tag=v9", "podAnnotations.build=x")
	for _, object := range ofKind(objects, "Deployment") {
		deployment := as[appsv1.Deployment](t, object)
		container := deployment.Spec.Template.Spec.Containers[0]
		replicas, image, env := int32(2), "registry.local/howdah/"+deployment.Name+":v9", 0
		if deployment.Name == "backup-controller" {
			replicas, image, env = 3, "example.test/mine:1", 1
		}
		if *deployment.Spec.Replicas != replicas || container.Image != image || len(container.Env) != env {
			t.Errorf("%s: %d replicas of %s, %d variables", deployment.Name, *deployment.Spec.Replicas, container.Image, len(container.Env))
		}
		if !slices.Contains(container.Args, "--agent-image=registry.local/howdah/agent:v9") {
			t.Errorf("%s has arguments %v", deployment.Name, container.Args)
		}
		if deployment.Spec.Template.Annotations["build"] != "x" {
			t.Errorf("%s has annotations %v", deployment.Name, deployment.Spec.Template.Annotations)
		}
	}
	if budgets := names(ofKind(objects, "PodDisruptionBudget")); slices.Contains(budgets, "backup-controller") || len(budgets) != 5 {
		t.Errorf("budgets of %v", budgets)
	}
}

func TestEveryControllerIsToldHowPodsGetTheAgent(t *testing.T) {
	for mounted, want := range map[string][]string{
		"false": nil, "true": {"--agent-image-volume"}, "jobs": {"--agent-image-volume-in-jobs"},
		"auto": nil, // no node can be seen here
	} {
		for _, object := range ofKind(render(t, "agent.imageVolume="+mounted), "Deployment") {
			args := as[appsv1.Deployment](t, object).Spec.Template.Spec.Containers[0].Args
			got := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return !strings.HasPrefix(arg, "--agent-image-volume") })
			if !slices.Equal(got, want) {
				t.Errorf("%s has arguments %v where it is %s", object.GetName(), args, mounted)
			}
		}
	}
}

// A tag means another image with each minor version, and whatever its registry makes of it.
func TestEachVersionOfPostgreSQLHasAnImageByItsDigest(t *testing.T) {
	official := regexp.MustCompile(`^(15|17|18)=postgres:(15|17|18)-trixie@sha256:[0-9a-f]{64}$`)
	for _, object := range ofKind(render(t), "Deployment") {
		for _, arg := range as[appsv1.Deployment](t, object).Spec.Template.Spec.Containers[0].Args {
			list, is := strings.CutPrefix(arg, "--postgres-images=")
			if !is {
				continue
			}
			images := strings.Split(list, ",")
			for _, image := range images {
				if parts := official.FindStringSubmatch(image); len(parts) == 0 || parts[1] != parts[2] {
					t.Errorf("%s: %s", object.GetName(), image)
				}
			}
			if len(images) != 3 {
				t.Errorf("%s has %v", object.GetName(), images)
			}
		}
	}
}

func TestValuesThatNothingActsOnAreRefused(t *testing.T) {
	for _, set := range []string{
		"controllers.db-controller.podSecurityContext.runAsNonRoot=false",
		"controllers.db-controller.serviceAccount.create=false,controllers.db-controller.serviceAccount.annotations.role=x",
		"controllers.db-controller.replica=2",
		"controllers.vacuum-controller.replicas=1",
		"controllers.db-controller.replicas=-1",
		"replicas=-1",
		"watchNamespaces={Not_A_Name}",
		"postgres.images.seventeen=x",
		"log.level=loud",
		"image.pullPolicy=Sometimes",
		"agent.imageVolume=perhaps",
	} {
		if out, err := try(set); err == nil {
			t.Errorf("--set %s was taken", set)
		} else if !bytes.Contains(out, []byte("don't meet the specifications of the schema")) {
			t.Errorf("--set %s failed for another reason:\n%s", set, out)
		}
	}
}

func TestTheCloudIdentityOfTheControllersIsGrantedByTheValuesOnly(t *testing.T) {
	const flag = "--cloud-identity-grants="
	for _, object := range ofKind(render(t), "Deployment") {
		for _, arg := range as[appsv1.Deployment](t, object).Spec.Template.Spec.Containers[0].Args {
			if strings.HasPrefix(arg, flag) {
				t.Errorf("%s has %s by default", object.GetName(), arg)
			}
		}
	}
	objects := render(t, "cloudIdentity.grants[0].namespace=shop", "cloudIdentity.grants[0].bucket=backups", "cloudIdentity.grants[0].prefix=shop/")
	for _, object := range ofKind(objects, "Deployment") {
		opens := object.GetName() == "backup-controller" || object.GetName() == "restore-controller"
		args := as[appsv1.Deployment](t, object).Spec.Template.Spec.Containers[0].Args
		if slices.Contains(args, flag+`[{"bucket":"backups","namespace":"shop","prefix":"shop/"}]`) != opens {
			t.Errorf("%s has arguments %v", object.GetName(), args)
		}
	}
	if out, err := try("cloudIdentity.grants[0].bucket=backups"); err == nil || !strings.Contains(string(out), "namespace") {
		t.Errorf("a grant without a namespace: %v\n%s", err, out)
	}
}
