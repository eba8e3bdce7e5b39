// Package fakeapi is a fake client that refuses a deletion whose preconditions don't hold, as the API server does: the one of
// controller-runtime looks at no UID and no version.
package fakeapi

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"howdah.dev/apis/v1alpha1"
)

// New returns a client of an API server that has these objects.
func New(objects ...client.Object) client.WithWatch {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(objects...).
		WithInterceptorFuncs(interceptor.Funcs{Delete: remove}).Build()
}

func remove(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
	given := client.DeleteOptions{}
	given.ApplyOptions(opts)
	now := object.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), now); err != nil {
		return err
	}
	if want := given.Preconditions; want != nil && want.UID != nil && *want.UID != now.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{}, object.GetName(),
			fmt.Errorf("the UID in the precondition is %s, the one of the object is %s", *want.UID, now.GetUID()))
	}
	if want := given.Preconditions; want != nil && want.ResourceVersion != nil && *want.ResourceVersion != now.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{}, object.GetName(),
			fmt.Errorf("the version in the precondition is %s, the one of the object is %s", *want.ResourceVersion, now.GetResourceVersion()))
	}
	return c.Delete(ctx, object, opts...)
}
