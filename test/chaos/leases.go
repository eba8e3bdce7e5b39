package chaos

import (
	"encoding/json"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// oldLease writes the Lease again that names the former primary, as somebody does who restores etcd from a backup.
func oldLease(r *round) {
	old, err := r.lease()
	r.Must(err)
	switchover(r)
	r.Must(r.writeAgain(old))
	r.pass(after)
}

// deletedLease deletes the Lease, and the primary dies before it has noticed.
func deletedLease(r *round) {
	r.Must(r.deleteLease())
	r.killContainer()
}

func (r *round) lease() (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{ObjectMeta: r.Meta(name)}
	return lease, r.Get(r.Context(), client.ObjectKeyFromObject(lease), lease)
}

// writeAgain gives the Lease the contents of an earlier one, whatever it says now.
func (r *round) writeAgain(old *coordinationv1.Lease) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": old.Annotations}, "spec": old.Spec})
	if err != nil {
		return err
	}
	return r.Patch(r.Context(), old, client.RawPatch("application/merge-patch+json", patch))
}

func (r *round) deleteLease() error {
	lease, err := r.lease()
	if err != nil {
		return err
	}
	return r.Delete(r.Context(), lease)
}
