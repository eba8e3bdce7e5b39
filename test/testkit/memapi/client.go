package memapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Call is one request of a process.
type Call struct {
	// Verb is get, list, create, update, patch, apply or delete; Kind and Name of the object.
	Verb, Kind, Name string
	// Writes: it changes something.
	Writes bool
}

func (c Call) String() string { return strings.TrimSpace(c.Verb + " " + c.Kind + " " + c.Name) }

// Client of one process.
type Client struct {
	server *Server
	cache  *Cache
	around func(Call, func() error) error
}

var _ client.Client = &Client{}

// Client reads from the cache, or from the server itself if that is nil, and writes. Around is called for each request, with what
// carries it out; nil: every request is carried out.
func (s *Server) Client(cache *Cache, around func(Call, func() error) error) *Client {
	if around == nil {
		around = func(_ Call, do func() error) error { return do() }
	}
	return &Client{server: s, cache: cache, around: around}
}

// Get an object.
func (c *Client) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(into, c.server.scheme)
	if err != nil {
		return err
	}
	return c.around(Call{Verb: "get", Kind: gvk.Kind, Name: name.Name}, func() error {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		k := key{gvk.Kind, name.Namespace, name.Name}
		found := c.view(into)[k]
		if found == nil {
			return notFound(k)
		}
		return c.server.copyInto(found, into)
	})
}

// view is where an object of that kind is read.
func (c *Client) view(of client.Object) map[key]client.Object {
	if c.cache == nil || uncached(of) {
		return c.server.objects
	}
	return c.cache.view
}

// List objects.
func (c *Client) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, c.server.scheme)
	if err != nil {
		return err
	}
	kind := strings.TrimSuffix(gvk.Kind, "List")
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	return c.around(Call{Verb: "list", Kind: kind}, func() error {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		view := c.server.objects
		if c.cache != nil && kind != "Secret" {
			view = c.cache.view
		}
		var found []client.Object
		for k, object := range view {
			if k.kind == kind && (options.Namespace == "" || options.Namespace == k.namespace) && matches(object, options) {
				found = append(found, object)
			}
		}
		slices.SortFunc(found, func(a, b client.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
		items := make([]runtime.Object, 0, len(found))
		for _, object := range found {
			items = append(items, object.DeepCopyObject())
		}
		return meta.SetList(list, items)
	})
}

func matches(object client.Object, options client.ListOptions) bool {
	if options.FieldSelector != nil && !options.FieldSelector.Empty() {
		return false // nothing here is listed by fields but Events, of which there are none
	}
	return options.LabelSelector == nil || options.LabelSelector.Matches(labelsOf(object))
}

type labelsOfObject map[string]string

func labelsOf(object client.Object) labelsOfObject          { return object.GetLabels() }
func (l labelsOfObject) Has(label string) bool              { _, has := l[label]; return has }
func (l labelsOfObject) Get(label string) string            { return l[label] }
func (l labelsOfObject) Lookup(label string) (string, bool) { v, has := l[label]; return v, has }

// write carries a write out, and has the caller's object be what is stored.
func (c *Client) write(verb string, object client.Object, do func(key, schema.GroupVersionKind) (client.Object, error)) error {
	k, gvk, err := c.server.keyOf(object)
	if err != nil {
		return err
	}
	return c.around(Call{Verb: verb, Kind: k.kind, Name: k.name, Writes: true}, func() error {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		stored, err := do(k, gvk)
		if err != nil || stored == nil {
			return err
		}
		return c.server.copyInto(stored, object)
	})
}

// Create an object.
func (c *Client) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return c.write("create", object, func(key, schema.GroupVersionKind) (client.Object, error) { return c.server.create(object) })
}

// Delete an object.
func (c *Client) Delete(_ context.Context, object client.Object, opts ...client.DeleteOption) error {
	options := client.DeleteOptions{}
	options.ApplyOptions(opts)
	return c.write("delete", object, func(k key, _ schema.GroupVersionKind) (client.Object, error) { return nil, c.server.remove(k, options) })
}

// DeleteAllOf is not used by any controller.
func (c *Client) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errors.New("memapi: DeleteAllOf is not implemented")
}

// Update an object, but for its status.
func (c *Client) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	return c.update(object, main)
}

func (c *Client) update(object client.Object, of part) error {
	return c.write("update", object, func(k key, gvk schema.GroupVersionKind) (client.Object, error) {
		fields, err := c.server.fields(object)
		if err != nil {
			return nil, err
		}
		return c.server.change(k, gvk, fields, of)
	})
}

// Patch an object, but for its status.
func (c *Client) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.patch(object, patch, main)
}

func (c *Client) patch(object client.Object, patch client.Patch, of part) error {
	if patch.Type() != types.MergePatchType {
		return fmt.Errorf("memapi: a patch of type %s is not implemented", patch.Type())
	}
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	return c.write("patch", object, func(k key, gvk schema.GroupVersionKind) (client.Object, error) {
		return c.server.patch(k, gvk, data, of)
	})
}

// Apply an object, but for its status.
func (c *Client) Apply(_ context.Context, wanted runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	options := client.ApplyOptions{}
	options.ApplyOptions(opts)
	return c.apply(wanted, options.FieldManager, main)
}

func (c *Client) apply(wanted runtime.ApplyConfiguration, manager string, of part) error {
	data, err := json.Marshal(wanted)
	if err != nil {
		return fmt.Errorf("marshal: %w", err)
	}
	fields := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, fields); err != nil {
		return fmt.Errorf("unmarshal: %w", err)
	}
	err = c.write("apply", fields, func(key, schema.GroupVersionKind) (client.Object, error) { return c.server.apply(fields, manager, of) })
	if err != nil {
		return err
	}
	into, is := wanted.(interface{ SetUnstructuredContent(map[string]any) })
	if !is {
		return fmt.Errorf("memapi: to apply %T is not implemented", wanted)
	}
	into.SetUnstructuredContent(fields.Object)
	return nil
}

// Status is the status subresource.
func (c *Client) Status() client.SubResourceWriter { return statusClient{c} }

// SubResource is not implemented but for the status.
func (c *Client) SubResource(string) client.SubResourceClient { return statusClient{c} }

// Scheme of the server.
func (c *Client) Scheme() *runtime.Scheme { return c.server.scheme }

// RESTMapper is not used by any controller.
func (c *Client) RESTMapper() meta.RESTMapper { return nil }

// GroupVersionKindFor an object.
func (c *Client) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(object, c.server.scheme)
}

// IsObjectNamespaced is true of all kinds here.
func (c *Client) IsObjectNamespaced(runtime.Object) (bool, error) { return true, nil }

// statusClient writes statuses.
type statusClient struct{ client *Client }

func (s statusClient) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errors.New("memapi: to get a subresource is not implemented")
}

func (s statusClient) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errors.New("memapi: to create a subresource is not implemented")
}

func (s statusClient) Update(_ context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.client.update(object, status)
}

func (s statusClient) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.client.patch(object, patch, status)
}

func (s statusClient) Apply(_ context.Context, wanted runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	options := client.SubResourceApplyOptions{}
	options.ApplyOpts(opts)
	return s.client.apply(wanted, options.FieldManager, status)
}

// copyInto has the caller's object be a copy of the one that is stored.
func (s *Server) copyInto(stored, into client.Object) error {
	if partial, is := into.(*metav1.PartialObjectMetadata); is {
		kind := partial.GroupVersionKind()
		fields := s.mustFields(stored)
		*partial = metav1.PartialObjectMetadata{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"metadata": fields["metadata"]}, partial); err != nil {
			return fmt.Errorf("convert %s: %w", kind.Kind, err)
		}
		partial.SetGroupVersionKind(kind)
		return nil
	}
	return s.give(stored, into)
}
