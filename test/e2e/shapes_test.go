//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// shape is how an image differs from Debian's, of which it is made.
type shape struct {
	user int // whom its passwd calls postgres
	// moved: the programs are in /usr/local/bin and the rest is below /opt, as in images that build PostgreSQL themselves.
	moved bool
}

const shapeMajor = 15

// shaped loads the image of that shape into the nodes, and returns its name.
func (b *bed) shaped(name string, of shape) string {
	b.Helper()
	archive := b.Kube("images", fmt.Sprint(shapeMajor))
	folder := b.TempDir()
	if out, err := exec.Command("tar", "--directory", folder, "--extract", "--file", archive).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	base := b.onlyImage(folder)
	config, err := base.ConfigFile()
	b.Must(err)
	content := *config.Config.DeepCopy()
	if of.moved {
		content.Env = slices.DeleteFunc(content.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
		content.Env = append(content.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	layer := b.changes(base, of)
	base, err = mutate.Config(base, content)
	b.Must(err)
	reference := "registry.local/" + name + ":" + b.Namespace
	b.loadLayer(reference, base, layer)
	return reference
}

func (b *bed) onlyImage(folder string) v1.Image {
	b.Helper()
	index, err := layout.ImageIndexFromPath(folder)
	b.Must(err)
	manifest, err := index.IndexManifest()
	b.Must(err)
	image, err := index.Image(manifest.Manifests[0].Digest)
	b.Must(err)
	return image
}

// changes are the files of a layer that gives an image its shape.
func (b *bed) changes(base v1.Image, of shape) []byte {
	b.Helper()
	layers, err := base.Layers()
	b.Must(err)
	files, err := layers[0].Uncompressed()
	b.Must(err)
	defer files.Close()
	var changed bytes.Buffer
	out := tar.NewWriter(&changed)
	if of.moved {
		for _, gone := range []string{"usr/lib/postgresql", "usr/share/postgresql"} {
			b.Must(out.WriteHeader(&tar.Header{Name: fmt.Sprintf("%s/.wh.%d", gone, shapeMajor), Mode: 0o644}))
		}
	}
	for in := tar.NewReader(files); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		b.Must(err)
		b.Must(of.change(out, header, in))
	}
	b.Must(out.Close())
	return changed.Bytes()
}

// change writes what an entry of the base becomes, if it is another than before.
func (of shape) change(out *tar.Writer, header *tar.Header, content io.Reader) error {
	const debianUser = 999
	name := strings.TrimPrefix(header.Name, "./")
	moves := of.moved && slices.ContainsFunc([]string{"lib", "share"}, func(kind string) bool {
		return strings.HasPrefix(name, fmt.Sprintf("usr/%s/postgresql/%d/", kind, shapeMajor))
	})
	users := name == "etc/passwd" || name == "etc/group"
	if !moves && !users && header.Uid != debianUser {
		return nil
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	if users {
		data = bytes.ReplaceAll(data, fmt.Appendf(nil, ":%d:", debianUser), fmt.Appendf(nil, ":%d:", of.user))
	}
	if header.Uid == debianUser {
		header.Uid, header.Gid = of.user, of.user
	}
	if header.Name = name; moves {
		header.Name = "opt/pgsql/" + strings.TrimPrefix(name, "usr/")
	}
	header.Size = int64(len(data))
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	if _, err := out.Write(data); err != nil {
		return err
	}
	program, isProgram := strings.CutPrefix(name, fmt.Sprintf("usr/lib/postgresql/%d/bin/", shapeMajor))
	if !moves || !isProgram || program == "" {
		return nil
	}
	return out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "usr/local/bin/" + program, Linkname: "/" + header.Name, Mode: 0o777})
}

// openShift is what a namespace of OpenShift does to pods under the SecurityContextConstraints restricted-v2: those that ask for no user
// get that of the namespace, and those that ask for another one are refused.
const openShift = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  matchConditions:
  - {name: no-user-of-its-own, expression: "!has(object.spec.securityContext) || !has(object.spec.securityContext.runAsUser) && !has(object.spec.securityContext.fsGroup)"}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: "Object{spec: Object.spec{securityContext: Object.spec.securityContext{runAsUser: USER, fsGroup: USER}}}"
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec: {policyName: NAMESPACE}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  variables:
  - {name: pod, expression: "object.spec.securityContext"}
  - {name: containers, expression: "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])"}
  validations:
  - expression: >-
      variables.pod.runAsUser == USER && variables.pod.fsGroup == USER && !has(variables.pod.runAsGroup) && !has(variables.pod.supplementalGroups) &&
      variables.containers.all(c, !has(c.securityContext) || !has(c.securityContext.runAsUser) && !has(c.securityContext.runAsGroup))
    message: "unable to validate against any security context constraint: the user must be that of the namespace"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec: {policyName: NAMESPACE, validationActions: [Deny]}
`

// namespaceUser is one that no image knows.
const namespaceUser = 1000680000

// likeOpenShift has the namespace decide about users, from now on and as soon as the API server enforces it.
func (b *bed) likeOpenShift() {
	b.Helper()
	text := strings.NewReplacer("NAMESPACE", b.Namespace, "USER", fmt.Sprint(namespaceUser)).Replace(openShift)
	for _, document := range strings.Split(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		b.Must(yaml.Unmarshal([]byte(document), &object.Object))
		b.Must(b.Create(b.Context(), object))
		b.Cleanup(func() { _ = b.Delete(context.Background(), object) })
	}
	pod := func(user *int64) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: b.Meta("probe"), Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: user}, Containers: []corev1.Container{{Name: "c", Image: "c"}},
		}}
	}
	dry := client.NewDryRunClient(b.Client)
	b.Must(wait.PollUntilContextTimeout(b.Context(), time.Second/4, time.Minute, true, func(ctx context.Context) (bool, error) {
		own, others := pod(nil), pod(ptr.To[int64](999))
		return dry.Create(ctx, own) == nil && ptr.Deref(own.Spec.SecurityContext.RunAsUser, 0) == namespaceUser && dry.Create(ctx, others) != nil, nil
	}))
}

// TestImagesOfOtherUsersAndPathsAreBackedUpSwitchedOverAndRestored: one whose programs are elsewhere and whose user is 70, as in those on Alpine,
// one with the user 26, as CloudNativePG's, and any, in a namespace that gives its pods a user which the image doesn't know.
func TestImagesOfOtherUsersAndPathsAreBackedUpSwitchedOverAndRestored(t *testing.T) {
	onlyInFull(t, "the agent and the shape of pods have tests of their own for users and paths")
	place.NeedKube(t)
	for name, c := range map[string]struct {
		runAs v1alpha1.RunAs
		shape *shape
		ids   string // of a process: user and group
	}{
		"moved":     {v1alpha1.RunAs{UserID: ptr.To[int64](70)}, &shape{user: 70, moved: true}, "70 70"},
		"other":     {v1alpha1.RunAs{UserID: ptr.To[int64](26)}, &shape{user: 26}, "26 26"},
		"namespace": {v1alpha1.RunAs{FromNamespace: true}, nil, fmt.Sprintf("%d 0", namespaceUser)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, "minio")
			cluster := b.NewCluster("shop", shapeMajor)
			cluster.Spec.Instances, cluster.Spec.RunAs = 2, &c.runAs
			if c.shape != nil {
				cluster.Spec.Image = b.shaped(name, *c.shape)
			}
			if c.runAs.FromNamespace {
				b.likeOpenShift()
			}
			b.Must(b.Create(t.Context(), cluster))
			b.awaitInstances(cluster, 2)
			for _, instance := range []string{"shop-0", "shop-1"} {
				ids, err := b.Exec(instance, "sh", "-c", "echo $(id -u) $(id -g) $(id -un)")
				if b.Must(err); ids != c.ids+" postgres" {
					t.Errorf("%s runs as %s", instance, ids)
				}
			}
			b.SQL("shop", "CREATE EXTENSION pg_trgm", "CREATE TABLE before AS SELECT 1 AS n")
			b.Backup("full", "shop")
			b.switchOver(cluster, "once")
			b.SQL("shop", "CREATE TABLE after AS SELECT 2 AS n")
			awaitArchived(b)
			restore := &v1alpha1.Restore{ObjectMeta: b.Meta("copy"), Spec: v1alpha1.RestoreSpec{
				Source:      v1alpha1.RestoreSource{Cluster: &v1alpha1.ClusterSource{Name: "shop"}},
				Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "copy", Temporary: true}},
			}}
			b.Must(b.Create(t.Context(), restore))
			b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
			if got := b.SQL("copy", "SELECT similarity('howdah', 'howdah') + before.n + after.n FROM before, after"); got != "4" {
				t.Errorf("the copy says %s", got)
			}
			b.checksAnUpgrade(c.shape)
		})
	}
}

// checksAnUpgrade to the newest version: it is possible from an image with Debian's paths, and the check says so where it isn't.
func (b *bed) checksAnUpgrade(of *shape) {
	b.Helper()
	check := &v1alpha1.Upgrade{ObjectMeta: b.Meta("check"), Spec: v1alpha1.UpgradeSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, Version: versions[len(versions)-1], CheckOnly: true,
	}}
	b.Must(b.Create(b.Context(), check))
	if of == nil || !of.moved {
		b.AwaitTrue(check, v1alpha1.ConditionSucceeded)
		return
	}
	b.AwaitSaid(check, fmt.Sprintf("The old image has no initdb of PostgreSQL %d", shapeMajor))
}
