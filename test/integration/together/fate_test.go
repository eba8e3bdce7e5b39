//go:build integration

package together

import (
	"context"
	"fmt"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// fate is what becomes of a Restore or an Upgrade.
type fate struct {
	// decision on a Restore, and the same on an Upgrade; empty: none, and an Upgrade is confirmed in the end. A Restore waits for a person then, as
	// nothing is archived here.
	decision v1alpha1.RestoreDecision
	// fails: its Job does. obstacle: the check of an Upgrade finds one.
	fails, obstacle bool
	// cancelAt and deleteAt are after how many words of it that is asked for; 0: never.
	cancelAt, deleteAt int

	words              int
	last               string
	cancelled, deleted bool
}

func randomFate(random *rand.Rand) *fate {
	f := &fate{decision: []v1alpha1.RestoreDecision{v1alpha1.DecisionConfirm, v1alpha1.DecisionUndo, ""}[random.IntN(3)]}
	switch random.IntN(8) {
	case 0:
		f.cancelAt = 1 + random.IntN(10)
	case 1:
		f.deleteAt = 1 + random.IntN(10)
	case 2:
		f.fails = true
	case 3:
		f.obstacle = true
	}
	return f
}

// act is what people do: they decide, cancel and delete.
func (k *kube) act(ctx context.Context, p *place, s *sight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range s.requesters() {
		f := p.fates[a.GetName()]
		if now := told(a.said); a.said != nil && now != f.last {
			f.last = now
			f.words++
		}
		restore, isRestore := a.Object.(*v1alpha1.Restore)
		upgrade, isUpgrade := a.Object.(*v1alpha1.Upgrade)
		switch {
		case a.ended || !a.GetDeletionTimestamp().IsZero():
		case f.cancelAt > 0 && f.words >= f.cancelAt && !f.cancelled && (!isRestore || restore.Status.RestoredAt == nil):
			f.cancelled = k.patch(ctx, a, `{"spec":{"cancel":true}}`)
		case f.deleteAt > 0 && f.words >= f.deleteAt:
			f.deleted = k.Delete(ctx, a.Object) == nil || f.deleted
		case isRestore && f.decision != "" && restore.Status.RestoredAt != nil && restore.Spec.Decision == "":
			k.patch(ctx, a, fmt.Sprintf(`{"spec":{"decision":%q}}`, f.decision))
		case isRestore && a.said != nil && a.said.Reason == v1alpha1.ReasonAwaitingDecision && restore.Spec.Decision == "":
			k.patch(ctx, a, fmt.Sprintf(`{"spec":{"decision":%q}}`, v1alpha1.DecisionConfirm))
		case isUpgrade && f.decision != "" && upgrade.Status.UpAt != nil && upgrade.Spec.Decision == "":
			k.patch(ctx, a, fmt.Sprintf(`{"spec":{"decision":%q}}`, f.decisionOnUpgrade()))
		}
	}
}

// decisionOnUpgrade is the word of an Upgrade for the decision.
func (f *fate) decisionOnUpgrade() v1alpha1.UpgradeDecision {
	if f.decision == v1alpha1.DecisionUndo {
		return v1alpha1.UpgradeRollBack
	}
	return v1alpha1.UpgradeConfirm
}

func (k *kube) patch(ctx context.Context, a requester, patch string) bool {
	return client.IgnoreNotFound(k.Patch(ctx, a.Object, client.RawPatch(types.MergePatchType, []byte(patch)))) == nil
}
