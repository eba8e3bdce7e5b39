// Package serverside makes of a typed object the fields that a server-side apply wants to own: no status, and nothing that only typed objects
// marshal although nothing was said of it.
package serverside

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// NoVersion is the version of no object: the first revision of a store is an empty one. So to apply with it creates an object, or fails
// with a conflict where there is one.
const NoVersion = "1"

// Fields of an object that are to be owned.
func Fields(scheme *runtime.Scheme, object client.Object) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		return nil, fmt.Errorf("find kind of %T: %w", object, err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("convert %s %s: %w", gvk.Kind, object.GetName(), err)
	}
	delete(fields, "status")
	dropNulls(fields)
	wanted := &unstructured.Unstructured{Object: fields}
	wanted.SetGroupVersionKind(gvk)
	return wanted, nil
}

// dropNulls removes fields that typed objects marshal although nothing was said of them.
func dropNulls(fields map[string]any) {
	for name, value := range fields {
		switch v := value.(type) {
		case nil:
			delete(fields, name)
		case map[string]any:
			dropNulls(v)
		case []any:
			for _, element := range v {
				if m, ok := element.(map[string]any); ok {
					dropNulls(m)
				}
			}
		}
	}
}
