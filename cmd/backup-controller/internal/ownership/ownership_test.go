package ownership

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/layout"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func cluster(namespace string, change func(*v1alpha1.PostgresCluster)) *v1alpha1.PostgresCluster {
	c := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop", UID: "u1"}}
	c.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "minio"}}
	c.Status.SystemIdentifier, c.Status.DataGeneration = "7", "g1"
	if change != nil {
		change(c)
	}
	return c
}

func TestWhoseALineageIs(t *testing.T) {
	const days = 24 * time.Hour
	for name, test := range map[string]struct {
		cluster *v1alpha1.PostgresCluster
		lately  time.Duration // ago
		hidden  string
		want    Owner
	}{
		"of a cluster that is here":                  {cluster("demo", nil), 0, "", Living},
		"of one that has not begun":                  {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.Status.SystemIdentifier = "" }), 0, "", Living},
		"of one that has other data since":           {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.Status.DataGeneration = "g2" }), 0, "", Past},
		"of one that archives by another name":       {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.Spec.Archive.Repository.Name = "same" }), 0, "", Elsewhere},
		"of one that archived by another name":       {cluster("demo", formerly), 9 * days, "", Past},
		"of one that archives elsewhere since":       {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.Spec.Archive.Repository.Name = "other" }), 0, "", Past},
		"of one that only wants to go elsewhere":     {cluster("demo", leaving), 0, "", Living},
		"of a cluster in another namespace":          {cluster("prod", nil), 9 * days, "", Elsewhere},
		"of nobody here, written an hour ago":        {nil, time.Hour, "", Unsettled},
		"of nobody here, not written for two days":   {nil, 2 * days, "", Gone},
		"of nobody here, written in the future":      {nil, -time.Hour, "", Unsettled},
		"of another cluster of the name, long gone":  {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.UID = "u2" }), 2 * days, "", Gone},
		"of one that took it over":                   {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.UID, c.Status.Identity = "u2", "u1" }), 0, "", Living},
		"of one that could not be looked for":        {nil, 30 * days, "which nobody may look for", Unknown},
		"of one that was found without being looked": {cluster("demo", nil), 30 * days, "of no name", Living},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Writers{
				namespace: "demo", repository: "minio", clusters: map[string]*v1alpha1.PostgresCluster{}, hidden: map[string]string{"u1": test.hidden},
				others: map[string]bool{"same": true, "readonly": false},
			}
			if test.cluster != nil {
				w.clusters[string(test.cluster.Identity())] = test.cluster
			}
			l := layout.Lineage{Lineage: "7-g1", Writer: layout.Writer{UID: "u1", Namespace: "demo", Name: "shop"}}
			got, why := w.Owner(l, now.Add(-test.lately), now)
			if got != test.want || (why != "") != got.Foreign() {
				t.Errorf("got %d, %q", got, why)
			}
		})
	}
}

// answering is an API server that answers every question for a cluster with one error.
type answering struct {
	client.Reader
	err error
}

func (a answering) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return a.err
}

func (a answering) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return client.IgnoreNotFound(a.err)
}

// TestOnlyAWriterThatWasLookedForCanBeGone: who may not be looked for, or has no name, is somebody else.
func TestOnlyAWriterThatWasLookedForCanBeGone(t *testing.T) {
	clusters := v1alpha1.GroupVersion.WithResource("postgresclusters").GroupResource()
	forbidden, notFound := apierrors.NewForbidden(clusters, "shop", errors.New("no")), apierrors.NewNotFound(clusters, "shop")
	for name, test := range map[string]struct {
		writer layout.Writer
		answer error
		hidden bool
	}{
		"it is not there":         {layout.Writer{UID: "u1", Namespace: "prod", Name: "shop"}, notFound, false},
		"it may not be asked for": {layout.Writer{UID: "u1", Namespace: "prod", Name: "shop"}, forbidden, true},
		"it has no name":          {layout.Writer{UID: "u1", Namespace: "demo"}, notFound, true},
		"it has no namespace":     {layout.Writer{UID: "u1", Name: "shop"}, notFound, true},
		"it is of this namespace": {layout.Writer{UID: "u1", Namespace: "demo", Name: "shop"}, forbidden, false},
	} {
		w := &Writers{namespace: "demo", clusters: map[string]*v1alpha1.PostgresCluster{}, hidden: map[string]string{}}
		if err := w.lookFor(t.Context(), answering{err: test.answer}, test.writer); err != nil || (w.hidden["u1"] != "") != test.hidden {
			t.Errorf("%s: %v, %v", name, w.hidden, err)
		}
	}
	w := &Writers{namespace: "demo", hidden: map[string]string{}}
	err := w.lookFor(t.Context(), answering{err: errors.New("it is away")}, layout.Writer{UID: "u1", Namespace: "prod", Name: "shop"})
	if err == nil || !strings.Contains(err.Error(), "prod/shop: it is away") {
		t.Errorf("an API server that doesn't respond: %v", err)
	}
}

func leaving(c *v1alpha1.PostgresCluster) {
	c.Spec.Archive.Repository.Name = "other"
	c.Status.Archive = &v1alpha1.ArchiveStatus{Repository: "minio"}
}

func formerly(c *v1alpha1.PostgresCluster) {
	c.Spec.Archive.Repository.Name, c.Status.DataGeneration = "same", "g2"
}

func TestARepositoryCanHaveSeveralNames(t *testing.T) {
	place := func(bucket, prefix, endpoint, identity string) *v1alpha1.BackupRepository {
		repo := &v1alpha1.BackupRepository{}
		repo.Spec.S3, repo.Status.Identity = v1alpha1.S3Spec{Bucket: bucket, Prefix: prefix, Endpoint: endpoint}, identity
		return repo
	}
	one := place("backups", "shop", "https://a.example", "id1")
	for name, test := range map[string]struct {
		other *v1alpha1.BackupRepository
		want  bool
	}{
		"the same":                                    {place("backups", "/shop/", "https://a.example/", ""), true},
		"another address of the server":               {place("backups", "shop", "https://b.example", "id1"), true},
		"another server":                              {place("backups", "shop", "https://b.example", "id2"), false},
		"a server of which nothing is known":          {place("backups", "shop", "https://b.example", ""), false},
		"another prefix":                              {place("backups", "stock", "https://a.example", ""), false},
		"a copy in another bucket, with the identity": {place("copies", "shop", "https://a.example", "id1"), false},
	} {
		if got := samePlace(one, test.other); got != test.want || samePlace(test.other, one) != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
