package report

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// reportCertificates adds the condition of certificates of one's own, where there are some.
func reportCertificates(o *observed.Cluster, conditions map[string]condition.Finding) {
	if !o.Begun() || o.CertificatesReady.Reason == "" {
		meta.RemoveStatusCondition(&o.Cluster.Status.Conditions, v1alpha1.ConditionCertificatesReady)
		return
	}
	conditions[v1alpha1.ConditionCertificatesReady] = o.CertificatesReady
}
