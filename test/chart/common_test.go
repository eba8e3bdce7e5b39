//go:build chart

package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// all renders everything that the chart can create.
func all(t *testing.T, sets ...string) []unstructured.Unstructured {
	t.Helper()
	return render(t, append([]string{"networkPolicies.enabled=true", "monitoring.rules.enabled=true", "monitoring.dashboard.enabled=true", "monitoring.controllers.enabled=true",
		"metrics.readers[0].name=prometheus", "metrics.readers[0].namespace=monitoring"}, sets...)...)
}

func TestEveryObjectHasTheCommonLabelsAndAnnotations(t *testing.T) {
	objects := all(t, "commonLabels.cost-center=42x", "commonAnnotations.team=databases", "podLabels.only=pods", "podAnnotations.only=pods",
		"controllerDefaults.serviceAccount.annotations.role=r", "monitoring.dashboard.annotations.grafana_folder=f")
	for _, object := range objects {
		if object.GetLabels()["cost-center"] != "42x" || object.GetAnnotations()["team"] != "databases" {
			t.Errorf("%s %s has labels %v and annotations %v", object.GetKind(), object.GetName(), object.GetLabels(), object.GetAnnotations())
		}
		if object.GetLabels()["only"] != "" {
			t.Errorf("%s %s has the labels of pods", object.GetKind(), object.GetName())
		}
		for kind, own := range map[string]string{"ServiceAccount": "role", "CustomResourceDefinition": "helm.sh/resource-policy", "ConfigMap": "grafana_folder"} {
			if object.GetKind() == kind && object.GetAnnotations()[own] == "" {
				t.Errorf("%s %s has lost %s: %v", kind, object.GetName(), own, object.GetAnnotations())
			}
		}
	}
	for _, object := range ofKind(objects, "Deployment") {
		deployment := as[appsv1.Deployment](t, object)
		template, selector := deployment.Spec.Template.ObjectMeta, deployment.Spec.Selector.MatchLabels
		if template.Labels["cost-center"] != "42x" || template.Labels["only"] != "pods" || template.Annotations["only"] != "pods" || selector["cost-center"] != "" {
			t.Errorf("%s: %v, %v, selector %v", object.GetName(), template.Labels, template.Annotations, selector)
		}
	}
}

func TestLabelsOfTheChartAreNotReplaced(t *testing.T) {
	for _, set := range []string{"commonLabels.app\\.kubernetes\\.io/part-of=x", "podLabels.app\\.kubernetes\\.io/name=x", "commonLabels.team=not a label"} {
		if out, err := try(set); err == nil {
			t.Errorf("--set %s was accepted: %s", set, out[:min(len(out), 200)])
		}
	}
}

// Six controllers have nodes of their own in most clusters, and nobody wants to say so six times.
func TestSettingsOfAllControllersAreReplacedByThoseOfOne(t *testing.T) {
	const one = "controllers.db-controller."
	objects := render(t, "controllerDefaults.nodeSelector.pool=system", "controllerDefaults.priorityClassName=high", "controllerDefaults.tolerations[0].key=infra",
		"controllerDefaults.tolerations[0].operator=Exists", "controllerDefaults.podDisruptionBudget.enabled=true", "controllerDefaults.revisionHistoryLimit=0",
		"controllerDefaults.podSecurityContext.runAsUser=1000700000", "controllerDefaults.env[0].name=HTTPS_PROXY", "controllerDefaults.env[0].value=http://proxy:1",
		one+"nodeSelector.zone=a", one+"priorityClassName=highest", one+"tolerations[0].key=other", one+"tolerations[0].operator=Exists", one+"resources.limits.memory=1Gi",
		one+"podDisruptionBudget.enabled=false", one+"revisionHistoryLimit=3", one+"serviceAccount.create=false")
	for _, object := range ofKind(objects, "Deployment") {
		deployment := as[appsv1.Deployment](t, object)
		pod, container := deployment.Spec.Template.Spec, deployment.Spec.Template.Spec.Containers[0]
		nodes, class, taint, memory, kept := map[string]string{"pool": "system"}, "high", "infra", "256Mi", int32(0)
		if deployment.Name == "db-controller" {
			nodes, class, taint, memory, kept = map[string]string{"pool": "system", "zone": "a"}, "highest", "other", "1Gi", 3
		}
		if !maps.Equal(pod.NodeSelector, nodes) || pod.PriorityClassName != class || pod.Tolerations[0].Key != taint || len(pod.Tolerations) != 3 ||
			*deployment.Spec.RevisionHistoryLimit != kept || *pod.SecurityContext.RunAsUser != 1000700000 || len(container.Env) != 1 {
			t.Errorf("%s: %v, %s, %v, %d revisions, %+v, %v", deployment.Name, pod.NodeSelector, pod.PriorityClassName, pod.Tolerations, *deployment.Spec.RevisionHistoryLimit, pod.SecurityContext, container.Env)
		}
		if is := container.Resources.Limits.Memory(); is.Cmp(resource.MustParse(memory)) != 0 || container.Resources.Requests.Cpu().String() != "20m" {
			t.Errorf("%s has %+v", deployment.Name, container.Resources)
		}
	}
	others := slices.DeleteFunc(slices.Clone(controllers), func(name string) bool { return name == "db-controller" })
	for _, kind := range []string{"PodDisruptionBudget", "ServiceAccount"} {
		if got := names(ofKind(objects, kind)); !slices.Equal(got, others) {
			t.Errorf("%ss of %v", kind, got)
		}
	}
	for _, object := range ofKind(render(t), "Deployment") {
		if limit := as[appsv1.Deployment](t, object).Spec.RevisionHistoryLimit; limit != nil {
			t.Errorf("%s keeps %d revisions by default", object.GetName(), *limit)
		}
	}
	for _, set := range []string{"controllerDefaults.replicas=3", "controllerDefaults.image=x", "controllerDefaults.nodeselector.pool=system"} {
		if _, err := try(set); err == nil {
			t.Errorf("--set %s was accepted", set)
		}
	}
}

// A value that is removed (helm --set x=null), or that the values of an older release don't have (--reuse-values), is named.
func TestAValueThatIsMissingIsNamed(t *testing.T) {
	for _, value := range []string{"metrics", "monitoring.rules", "controllerDefaults.serviceAccount", "image.repository", "replicas", "crds.annotations", "watchNamespaces", "log.level"} {
		name := value[strings.LastIndex(value, ".")+1:]
		if out, err := try(value + "=null"); err == nil || !strings.Contains(string(out), "missing property '"+name+"'") {
			t.Errorf("without %s: %v, %s", value, err, out[:min(len(out), 300)])
		}
	}
}

func TestRolesCanBeLeftToSomebodyElse(t *testing.T) {
	for _, scope := range []string{"refuseOverlap=true", "watchNamespaces={one,two}"} {
		objects := all(t, "rbac.create=false", scope)
		for _, object := range objects {
			if strings.HasPrefix(object.GetAPIVersion(), "rbac.authorization.k8s.io/") {
				t.Errorf("with %s, there is %s %s", scope, object.GetKind(), object.GetName())
			}
		}
		if accounts := ofKind(objects, "ServiceAccount"); len(accounts) != len(controllers) {
			t.Errorf("with %s, there are the accounts %v", scope, names(accounts))
		}
	}
}
