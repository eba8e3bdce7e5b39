package workload

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// podOf is the pod of a Job in a cluster that runs as this user, with an agent that comes in this way.
func podOf(user *v1alpha1.RunAs, agent Agent) corev1.PodSpec {
	j := Job{
		Name: "shop-init", Owner: &v1alpha1.PostgresCluster{}, Image: "postgres:17", Agent: agent,
		ClusterSpec: &v1alpha1.PostgresClusterSpec{RunAs: user},
	}
	return j.pod()
}

func TestPodsRunAsTheUserThatIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		user *v1alpha1.RunAs
		want *int64
	}{
		"nobody asks":               {nil, ptr.To[int64](999)},
		"the user of another image": {&v1alpha1.RunAs{UserID: ptr.To[int64](26)}, ptr.To[int64](26)},
		"the namespace decides":     {&v1alpha1.RunAs{FromNamespace: true}, nil},
	} {
		s := podOf(c.user, Agent{Image: "agent:1"}).SecurityContext
		for field, got := range map[string]*int64{"runAsUser": s.RunAsUser, "runAsGroup": s.RunAsGroup, "fsGroup": s.FSGroup} {
			if !ptr.Equal(got, c.want) {
				t.Errorf("%s: %s is %v", name, field, ptr.Deref(got, -1))
			}
		}
		if !*s.RunAsNonRoot {
			t.Errorf("%s: root may run", name)
		}
	}
}

// The pod alone knows who it runs as, if the namespace decides; so the container that copies the agent writes the entry.
func TestAUserThatTheImageMayNotKnowGetsAnEntryInPasswd(t *testing.T) {
	for _, user := range []*v1alpha1.RunAs{{UserID: ptr.To[int64](26)}, {FromNamespace: true}} {
		for _, agent := range []Agent{{Image: "agent:1"}, {Image: "agent:1", Mounted: true}, {Image: "agent:1", MountedInJobs: true}} {
			pod := podOf(user, agent)
			if len(pod.InitContainers) != 1 || !slices.Contains(pod.InitContainers[0].Command, "--passwd="+agentapi.PasswdFile) {
				t.Fatalf("%+v: %+v", agent, pod.InitContainers)
			}
			mounts := slices.DeleteFunc(slices.Clone(pod.Containers[0].VolumeMounts), func(m corev1.VolumeMount) bool { return m.MountPath != "/etc/passwd" })
			if len(mounts) != 1 || mounts[0].SubPath != "passwd" || mounts[0].Name != "run" || !mounts[0].ReadOnly {
				t.Errorf("%+v: %+v", agent, mounts)
			}
		}
	}
	for _, agent := range []Agent{{Image: "agent:1"}, {Image: "agent:1", Mounted: true}} {
		pod := podOf(nil, agent)
		if slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/passwd" }) ||
			len(pod.InitContainers) > 0 && len(pod.InitContainers[0].Command) != 3 {
			t.Errorf("an image that knows the user gets an entry: %+v", pod)
		}
	}
}
