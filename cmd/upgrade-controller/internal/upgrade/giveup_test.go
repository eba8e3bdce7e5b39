package upgrade

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

func TestAnUpgradeExpiresAsItWasSeen(t *testing.T) {
	ended := func(ttl *int32) *v1alpha1.Upgrade {
		u := ready().upgrade
		u.Finalizers, u.Spec.TTLSecondsAfterFinished = nil, ttl
		u.Status.CompletedAt = &metav1.Time{Time: noon.Add(-time.Hour)}
		return u
	}
	for name, change := range map[string]func(*v1alpha1.Upgrade){
		"another one of that name by now": func(u *v1alpha1.Upgrade) { u.UID = "other" },
		"it is to stay by now":            func(u *v1alpha1.Upgrade) { u.Spec.TTLSecondsAfterFinished = nil },
	} {
		t.Run(name, func(t *testing.T) {
			seen, now := ended(ptr.To[int32](1)), ended(ptr.To[int32](1))
			seen.ResourceVersion = "1"
			change(now)
			now.ResourceVersion = "2"
			r := reconciler()
			r.Client = fakeapi.New(now)
			outcome := r.expire(t.Context(), &observed{upgrade: seen, now: noon})
			if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(now), &v1alpha1.Upgrade{}); err != nil {
				t.Errorf("it was deleted: %v (%+v)", err, outcome)
			}
		})
	}
	t.Run("it is as it was", func(t *testing.T) {
		u := ended(ptr.To[int32](1))
		r := reconciler()
		r.Client = fakeapi.New(u)
		seen := &v1alpha1.Upgrade{}
		if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(u), seen); err != nil {
			t.Fatal(err)
		}
		r.expire(t.Context(), &observed{upgrade: seen, now: noon})
		if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(u), &v1alpha1.Upgrade{}); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("it is still there: %v", err)
		}
	})
}
