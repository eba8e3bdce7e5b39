package statefulset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestAPodIsReplacedForImagesOfExtensionsOnceItsVersionFindsThem(t *testing.T) {
	images := func(image string, version int32) *v1alpha1.PostgresCluster {
		cluster := shop()
		cluster.Status.MajorVersion = version
		if image != "" {
			cluster.Spec.PostgreSQL.ExtensionImages = []v1alpha1.ExtensionImage{{Name: "pgvector", Image: image}}
		}
		return cluster
	}
	const other = "other images of extensions"
	for name, c := range map[string]struct {
		before, after *v1alpha1.PostgresCluster
		says          string
	}{
		"added":                            {images("", 18), images("pgvector:1", 18), other},
		"removed":                          {images("pgvector:1", 18), images("", 18), other},
		"of another tag":                   {images("pgvector:1", 18), images("pgvector:2", 18), other},
		"the same":                         {images("pgvector:1", 18), images("pgvector:1", 18), ""},
		"while the cluster waits for 18":   {images("", 17), images("pgvector:1", 17), ""},
		"a cluster that never had any":     {images("", 17), images("", 17), ""},
		"the version that they waited for": {images("pgvector:1", 17), images("pgvector:1", 18), other},
	} {
		t.Run(name, func(t *testing.T) {
			template := Build(c.before, inputs).Spec.Template
			pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
			if got := Changes(pod, c.after, inputs); got != c.says {
				t.Errorf("changes: %q", got)
			}
		})
	}
}

// TestAClusterWithoutImagesOfExtensionsKeepsItsHash: another one would restart every database with the upgrade of the suite.
func TestAClusterWithoutImagesOfExtensionsKeepsItsHash(t *testing.T) {
	cluster := shop()
	cluster.Status.MajorVersion = 18
	before := Hash(cluster, inputs)
	cluster.Spec.PostgreSQL.ExtensionImages = []v1alpha1.ExtensionImage{}
	if got := Hash(cluster, inputs); got != before {
		t.Errorf("%s, then %s", before, got)
	}
}
