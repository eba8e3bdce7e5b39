// Package gitops tests that tools which wait for objects of any kind read the status of Howdah's as it is meant: Helm and Flux, which go by
// kstatus, and Argo CD, which has a health check in Lua.
package gitops

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// backup is one of generation 2, whose status is of this generation.
func backup(observed int64, conditions ...func(*v1alpha1.Backup)) *v1alpha1.Backup {
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "n", Generation: 2}}
	b.Status.ObservedGeneration = observed
	for _, set := range conditions {
		set(b)
	}
	return b
}

func succeeded(status metav1.ConditionStatus, reason string) func(*v1alpha1.Backup) {
	return func(b *v1alpha1.Backup) {
		flow.SetEnd(&b.Status.Conditions, b, v1alpha1.ConditionSucceeded, status, reason, "A sentence.")
	}
}

func ready(status metav1.ConditionStatus, reason string) func(*v1alpha1.Backup) {
	return func(b *v1alpha1.Backup) {
		flow.SetCondition(&b.Status.Conditions, b, v1alpha1.ConditionReady, status, reason, "A sentence.")
	}
}

// cases are objects, and what each tool is to say of them.
var cases = map[string]struct {
	object  *v1alpha1.Backup
	kstatus status.Status
	argo    string
}{
	"nobody has looked at it":   {backup(-1), status.InProgressStatus, "Progressing"},
	"it was changed":            {backup(1, succeeded(metav1.ConditionTrue, v1alpha1.ReasonCompleted)), status.InProgressStatus, "Progressing"},
	"it runs":                   {backup(2, succeeded(metav1.ConditionUnknown, v1alpha1.ReasonRunning)), status.InProgressStatus, "Progressing"},
	"it has succeeded":          {backup(2, succeeded(metav1.ConditionUnknown, v1alpha1.ReasonRunning), succeeded(metav1.ConditionTrue, v1alpha1.ReasonCompleted)), status.CurrentStatus, "Healthy"},
	"it has failed":             {backup(2, succeeded(metav1.ConditionUnknown, v1alpha1.ReasonRunning), succeeded(metav1.ConditionFalse, v1alpha1.ReasonJobFailed)), status.FailedStatus, "Degraded"},
	"it is ready":               {backup(2, ready(metav1.ConditionTrue, v1alpha1.ReasonRunning)), status.CurrentStatus, "Healthy"},
	"it starts":                 {backup(2, ready(metav1.ConditionFalse, v1alpha1.ReasonStarting)), status.InProgressStatus, "Progressing"},
	"it elects a primary":       {backup(2, ready(metav1.ConditionFalse, v1alpha1.ReasonElecting)), status.InProgressStatus, "Progressing"},
	"it needs a person":         {backup(2, ready(metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)), status.InProgressStatus, "Degraded"},
	"nothing is known of it":    {backup(2, ready(metav1.ConditionUnknown, v1alpha1.ReasonVerifying)), status.InProgressStatus, "Progressing"},
	"it hibernates":             {backup(2, ready(metav1.ConditionFalse, v1alpha1.ReasonHibernated)), status.InProgressStatus, "Suspended"},
	"its schedule is suspended": {backup(2, ready(metav1.ConditionFalse, v1alpha1.ReasonSuspended)), status.InProgressStatus, "Suspended"},
}

func TestHelmAndFluxWaitUntilWhatEndsHasEnded(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := status.Compute(&unstructured.Unstructured{Object: content(t, c.object)})
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != c.kstatus {
				t.Errorf("it is %s: %s", got.Status, got.Message)
			}
		})
	}
}

func TestArgoCDShowsTheHealthOfEachKind(t *testing.T) {
	checks := healthChecks(t)
	for _, kind := range kinds(t) {
		check, known := checks["resource.customizations.health.howdah.dev_"+kind]
		if !known {
			t.Errorf("there is no health check for a %s", kind)
			continue
		}
		for name, c := range cases {
			t.Run(kind+"/"+name, func(t *testing.T) {
				if got, message := health(t, check, content(t, c.object)); got != c.argo || message == "" {
					t.Errorf("it is %s: %s", got, message)
				}
			})
		}
	}
	if len(checks) != len(kinds(t)) {
		t.Errorf("there are checks for %v", slices.Sorted(maps.Keys(checks)))
	}
}

func content(t *testing.T, object *v1alpha1.Backup) map[string]any {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// healthChecks are the scripts by their keys in Argo CD's ConfigMap.
func healthChecks(t *testing.T) map[string]string {
	t.Helper()
	patch := struct{ Data map[string]string }{}
	read(t, "../../config/argocd/argocd-cm.yaml", &patch)
	return patch.Data
}

// kinds are those that have a definition.
func kinds(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../config/crd/howdah.dev_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %d definitions", err, len(files))
	}
	var found []string
	for _, file := range files {
		definition := struct {
			Spec struct{ Names struct{ Kind string } }
		}{}
		read(t, file, &definition)
		found = append(found, definition.Spec.Names.Kind)
	}
	return found
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// health runs a check as Argo CD does: on the global obj, for a table with status and message.
func health(t *testing.T, script string, object map[string]any) (status, message string) {
	t.Helper()
	machine := lua.NewState()
	defer machine.Close()
	machine.SetGlobal("obj", value(machine, object))
	if err := machine.DoString(script); err != nil {
		t.Fatal(err)
	}
	result, ok := machine.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("it returns %s", machine.Get(-1))
	}
	return result.RawGetString("status").String(), result.RawGetString("message").String()
}

// value of JSON in Lua.
func value(machine *lua.LState, of any) lua.LValue {
	switch v := of.(type) {
	case map[string]any:
		table := machine.NewTable()
		for name, field := range v {
			table.RawSetString(name, value(machine, field))
		}
		return table
	case []any:
		table := machine.NewTable()
		for _, item := range v {
			table.Append(value(machine, item))
		}
		return table
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case bool:
		return lua.LBool(v)
	}
	return lua.LNil
}
