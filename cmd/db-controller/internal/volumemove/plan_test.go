package volumemove

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
)

// asked is a trio on 10Gi of class fast, of which a tenth is used, that is to move to 5Gi of class slow.
func asked(change func(*observed.Cluster)) *observed.Cluster {
	return observedtest.Bound(func(o *observed.Cluster) {
		for ordinal := range 3 {
			o.Claim(ordinal).UID = types.UID("v" + o.Names.Instance(ordinal))
			o.Claim(ordinal).Spec.StorageClassName = ptr.To("fast")
			use(o, ordinal, "1Gi")
		}
		o.StatefulSet().Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To("fast")
		o.Classes["slow"] = &storagev1.StorageClass{}
		o.Cluster.Spec.Storage = v1alpha1.StorageSpec{Size: resource.MustParse("5Gi"), StorageClassName: ptr.To("slow"), Move: &v1alpha1.StorageMove{}}
		observedtest.OrNothing(change)(o)
	})
}

// use says how much of its volume an instance uses.
func use(o *observed.Cluster, ordinal int, size string) {
	status, used := &o.Cluster.Status, resource.MustParse(size)
	for len(status.Instances) <= ordinal {
		status.Instances = append(status.Instances, v1alpha1.InstanceStatus{Name: o.Names.Instance(len(status.Instances))})
	}
	status.Instances[ordinal].Storage = &v1alpha1.InstanceStorage{Used: &used}
}

// approve the plan, and begin it.
func approve(o *observed.Cluster) {
	Plan(context.Background(), o)
	if move := o.Cluster.Status.StorageMove; move != nil {
		o.Cluster.Spec.Storage.Move.Plan = move.Plan
	}
	Plan(context.Background(), o)
	o.StatefulSet().Spec.VolumeClaimTemplates[0] = volume.Templates(o.Cluster)[0]
	observedtest.Tell(o)
}

// moved instances have volumes as spec requests.
func moved(ordinals ...int) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		for _, ordinal := range ordinals {
			claim := volume.Claim(o.Cluster, ordinal)
			claim.UID, claim.Status.Phase = types.UID("new-"+o.Names.Instance(ordinal)), corev1.ClaimBound
			o.Live[observed.Key("PersistentVolumeClaim", claim.Name)] = claim
		}
	}
}

func TestAMoveIsShownFirstAndBeginsOnceItsPlanIsApproved(t *testing.T) {
	o := asked(nil)
	if outcome := Plan(t.Context(), o); outcome.Reason != v1alpha1.ReasonStorageMovePlanned {
		t.Fatalf("%+v", outcome)
	}
	move := o.Cluster.Status.StorageMove
	shaped := func() string { return sizeOf(o) + " " + ptr.Deref(volume.Class(o.Cluster), "") }
	for _, plan := range []string{"", "another", "g2-1"} {
		o.Cluster.Spec.Storage.Move.Plan = plan
		outcome := Plan(t.Context(), o)
		if Report(o); !outcome.Finished() || move.State != v1alpha1.StorageMovePlanned || shaped() != "10Gi fast" {
			t.Fatalf("approved by %q: %+v, new volumes are %s", plan, move, shaped())
		}
	}
	found := Condition(o)
	if found.Reason != v1alpha1.ReasonStorageMovePlanned || !strings.Contains(found.Message, "from volumes of 10Gi of StorageClass fast to volumes of 5Gi of StorageClass slow") ||
		!strings.Contains(found.Message, "The data fits: the primary uses 1Gi, so a new volume needs 1280Mi at least.") || !strings.HasSuffix(found.Message, "set spec.storage.move.plan: "+move.Plan+".") || move.Message != found.Message || move.Needed.String() != "1280Mi" {
		t.Errorf("%+v, %+v", found, move)
	}
	o.Cluster.Status.Storage = &v1alpha1.StorageStatus{Size: resource.MustParse("10Gi")} // they had grown to it by themselves
	o.Cluster.Spec.Storage.Move.Plan = move.Plan
	if Plan(t.Context(), o); move.State != v1alpha1.StorageMoveMoving || move.StartedAt == nil || shaped() != "5Gi slow" {
		t.Errorf("%+v, new volumes are %s", move, shaped())
	}
	o.Cluster.Spec.Storage.Size = resource.MustParse("4Gi") // another one than was approved
	Plan(t.Context(), o)
	if now := o.Cluster.Status.StorageMove; now.State != v1alpha1.StorageMovePlanned || now.Plan == "" || shaped() != "5Gi slow" {
		t.Errorf("%+v, new volumes are %s", now, shaped())
	}
}

func TestAPlanGoesWhenNothingIsLeftToMove(t *testing.T) {
	o := asked(nil)
	Plan(t.Context(), o)
	o.Cluster.Spec.Storage = v1alpha1.StorageSpec{Size: resource.MustParse("10Gi"), StorageClassName: ptr.To("fast")}
	if Plan(t.Context(), o); o.Cluster.Status.StorageMove != nil {
		t.Errorf("%+v", o.Cluster.Status.StorageMove)
	}
	o = asked(approve)
	moved(0, 1, 2)(o)
	Plan(t.Context(), o)
	Report(o)
	if move := o.Cluster.Status.StorageMove; move.State != v1alpha1.StorageMoveCompleted || move.CompletedAt == nil || move.Instances[2].State != v1alpha1.InstanceMoveMoved {
		t.Errorf("%+v", move)
	}
	if again := Plan(t.Context(), o); !again.Finished() || Condition(o).Reason != "" {
		t.Errorf("%+v, %+v", again, Condition(o))
	}
	if o = asked(func(o *observed.Cluster) { o.Cluster.Spec.Storage.Move = nil }); !Plan(t.Context(), o).Finished() {
		t.Error("a plan that nobody asks for")
	}
}

func TestAMoveThatCantBeCarriedOutIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		says   string
	}{
		"a single instance": {observedtest.Wants(1), "Set spec.instances to 2 first."},
		"too much data":     {func(o *observed.Cluster) { use(o, 0, "4200Mi") }, "a new one has to have 5250Mi at least"},
		"no room to grow": {func(o *observed.Cluster) {
			use(o, 0, "3Gi")
			o.Cluster.Spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse("20Gi"), AtPercent: 50}
		}, "a new one has to have 6Gi at least"},
		"nobody knows how much": {func(o *observed.Cluster) { o.Cluster.Status.Instances = nil }, "No agent has reported yet"},
		"no such class":         {func(o *observed.Cluster) { delete(o.Classes, "slow") }, "There is no StorageClass slow."},
	} {
		o := asked(c.change)
		approve(o)
		if found := Condition(o); o.Cluster.Status.StorageMove.State != v1alpha1.StorageMovePlanned || found.Reason != v1alpha1.ReasonStorageMoveRefused || !strings.Contains(found.Message, c.says) {
			t.Errorf("%s: %+v, %+v", name, o.Cluster.Status.StorageMove, found)
		}
	}
}

func TestOneInstanceMovesAtATimeAndThePrimaryLast(t *testing.T) {
	o := asked(approve)
	for _, want := range []string{"shop-2", "shop-1"} {
		if Plan(t.Context(), o); !strings.HasPrefix(message(o), want+" is next") {
			t.Fatalf("%s; want %s", message(o), want)
		}
		outcome := (&Steps{}).Next(t.Context(), o)
		if current := o.Cluster.Status.StorageMove.Current; current == nil || current.Instance != want || current.VolumeUID != types.UID("v"+want) || outcome.Finished() {
			t.Fatalf("%+v, %+v", current, outcome)
		}
		if again := (&Steps{}).Next(t.Context(), o); !again.Finished() {
			t.Error("another one is taken up beside it")
		}
		moved(o.Names.Ordinal(want))(o)
		observedtest.Tell(o)
		for range 2 { // its old volume is gone; it follows
			(&Steps{}).Continue(t.Context(), o)
			observedtest.Tell(o)
		}
		if o.Cluster.Status.StorageMove.Current != nil {
			t.Fatalf("%s is not done: %+v", want, o.Cluster.Status.StorageMove)
		}
	}
	if next := nextInstance(o); next != 0 || !slices.Equal(unlike(o), []int{0}) {
		t.Errorf("%d of %v is next", next, unlike(o))
	}
	observedtest.SwitchedTo(o, "shop-1")
	if (&Steps{}).Next(t.Context(), o); o.Cluster.Status.StorageMove.Leaving() != "shop-0" {
		t.Errorf("%s; %+v", message(o), o.Cluster.Status.StorageMove)
	}
}

// A class that provides no volume keeps nobody there: the way back is another plan, and nothing is on a claim without a volume.
func TestAnInstanceLeavesAClassThatGivesItNoVolume(t *testing.T) {
	o := asked(approve)
	o.Cluster.Status.StorageMove.Current = &v1alpha1.CurrentStorageMove{Instance: "shop-2", VolumeUID: "before", State: v1alpha1.InstanceMoveCloning}
	moved(2)(o)
	o.Claim(2).Status.Phase = corev1.ClaimPending
	observedtest.Unready(o, 2)
	o.Pod(2).Status.Phase = corev1.PodPending
	delete(o.Agents, "shop-2")
	if said := message(o); said != "shop-2 is cloned to its new volume. Pod shop-2 is being started." {
		t.Error(said)
	}
	if outcome := Plan(t.Context(), o); !outcome.Finished() || o.Cluster.Status.StorageMove.Current == nil {
		t.Fatalf("%+v", outcome)
	}
	o.Cluster.Spec.Storage.Size, o.Cluster.Spec.Storage.StorageClassName = resource.MustParse("10Gi"), ptr.To("fast")
	for range 2 { // it is planned, and begins
		Plan(t.Context(), o)
		o.Cluster.Spec.Storage.Move.Plan = o.Cluster.Status.StorageMove.Plan
	}
	o.StatefulSet().Spec.VolumeClaimTemplates[0] = volume.Templates(o.Cluster)[0]
	observedtest.Tell(o)
	if (&Steps{}).Next(t.Context(), o); o.Cluster.Status.StorageMove.Leaving() != "shop-2" {
		t.Fatalf("%s, %+v", message(o), o.Cluster.Status.StorageMove)
	}
	observedtest.Tell(o)
	if why := returns(o, 2) + counted(o, 2); why != "" {
		t.Error(why)
	}
	o.Claim(2).Status.Phase, o.Claim(2).Spec.VolumeName = corev1.ClaimBound, "v"
	if counted(o, 2) == "" {
		t.Error("nobody knows what is on its volume")
	}
}

func TestAnInstanceStaysOnItsVolumeWhileRepairsArePaused(t *testing.T) {
	o := asked(observedtest.All(approve, out("shop-2")))
	if why := returns(o, 2); why != "" {
		t.Fatal(why)
	}
	o.Cluster.Spec.Repair = &v1alpha1.Repair{PausedFrom: observed.TimeOf(o.Now.Add(-time.Minute)), PausedUntil: observed.TimeOf(o.Now.Add(time.Minute))}
	if (&Steps{}).Continue(t.Context(), o); o.Cluster.Status.StorageMove.Current != nil {
		t.Errorf("%+v", o.Cluster.Status.StorageMove.Current)
	}
}

func TestWhatAMoveWaitsFor(t *testing.T) {
	two := func(o *observed.Cluster) {
		observedtest.Lose(o, "shop-2")
		observedtest.ReplicasOfSet(o, 2)
		o.Cluster.Spec.Instances = 2
	}
	sync := func(number int32, durability v1alpha1.Durability) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.Cluster.Spec.Synchronous = &v1alpha1.Synchronous{Number: number, Durability: durability}
		}
	}
	fewer := func(o *observed.Cluster) { o.Cluster.Spec.Storage.Move.AllowFewerReplicas = true }
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		says   string // empty: for nothing
	}{
		"nothing":                       {nil, ""},
		"two instances":                 {two, "Without shop-1, no replica streams"},
		"two instances, knowingly":      {observedtest.All(two, fewer), ""},
		"commits that wait":             {sync(2, v1alpha1.DurabilityRequired), "Commits would wait while shop-2 is cloned"},
		"commits that wait, knowingly":  {observedtest.All(sync(2, v1alpha1.DurabilityRequired), fewer), "Commits would wait while shop-2 is cloned"},
		"commits that need not wait":    {sync(2, v1alpha1.DurabilityPreferred), ""},
		"a quorum without it":           {sync(1, v1alpha1.DurabilityRequired), ""},
		"an upgrade":                    {func(o *observed.Cluster) { o.Operation = "Upgrade to-18" }, "Upgrade to-18 has not ended."},
		"an upgrade that can be undone": {func(o *observed.Cluster) { o.Undoable = "Upgrade to-18" }, "until Upgrade to-18 is confirmed or undone"},
		"previous data that could not be brought back": {func(o *observed.Cluster) { o.PreviousOn = map[string]string{"shop-2": "Restore back"} },
			"The previous data of Restore back is on the volume of shop-2, and would be deleted with it."},
		"previous data on another volume": {func(o *observed.Cluster) { o.PreviousOn = map[string]string{"shop-1": "Restore back"} }, ""},
		"data that a clone has replaced": {observedtest.All(keepsCopies, twoCopies("shop-2")),
			"spec.repair.keepReplacedCopies keeps the data on the volume of shop-2 that a clone replaces (g1, g1.c1). When you don't need it any more, set keepReplacedCopies: false."},
		"such data on another volume":         {observedtest.All(keepsCopies, twoCopies("shop-1")), ""},
		"such data that nobody wants to keep": {twoCopies("shop-2"), ""},
		"a volume lock":                       {func(o *observed.Cluster) { observedtest.HandsOver(o, "g1", v1alpha1.VolumeLockGranted, "shop-0") }, "Upgrade up"},
		"a backup":                            {func(o *observed.Cluster) { o.BackingUp = "nightly-x" }, "Pod nightly-x takes a backup."},
		"a drill": {func(o *observed.Cluster) {
			o.FailoverDrill = &v1alpha1.FailoverDrill{ObjectMeta: metav1.ObjectMeta{Name: "d"}}
		}, "FailoverDrill d"},
		"another image": {observedtest.NewImage(), "has to be restarted or replaced first"},
		"a hibernation": {func(o *observed.Cluster) { o.Cluster.Spec.Hibernate = true }, "hibernated"},
		"a fenced instance": {func(o *observed.Cluster) {
			o.Cluster.Spec.Failover = &v1alpha1.Failover{Fenced: []v1alpha1.InstanceName{"shop-1"}}
		}, "spec.failover.fenced"},
		"a clone": {func(o *observed.Cluster) {
			o.Cluster.Status.Reinit = &v1alpha1.ReinitStatus{Instance: "shop-1", State: v1alpha1.ReinitRunning}
		}, "shop-1 is being cloned again"},
		"a replica that does not follow": {func(o *observed.Cluster) { o.Agents["shop-1"].Replication = nil }, "shop-1 doesn't receive WAL"},
		"a primary":                      {func(o *observed.Cluster) { observedtest.Unready(o, 0); o.Agents["shop-0"].Role = "replica" }, "with a primary"},
		"approval":                       {func(o *observed.Cluster) { o.Cluster.Spec.Storage.Move.Plan = "" }, "spec.storage.move.plan isn't"},
		"the window": {func(o *observed.Cluster) {
			o.Cluster.Spec.MaintenanceWindow = observedtest.WindowOf("0 3 * * 0", "", 3600e9)
		}, "maintenance window, which opens on"},
	} {
		o := asked(approve)
		if c.change != nil {
			c.change(o)
		}
		observedtest.Tell(o)
		(&Steps{}).Next(t.Context(), o)
		began := o.Cluster.Status.StorageMove.Current != nil
		if began != (c.says == "") || !began && !strings.Contains(message(o), c.says) {
			t.Errorf("%s: begun %v: %s", name, began, message(o))
		}
	}
}

func keepsCopies(o *observed.Cluster) {
	o.Cluster.Spec.Repair = &v1alpha1.Repair{KeepReplacedCopies: true}
}

func twoCopies(instance string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		o.Agents[instance].Copies = []agentapi.Copy{{ID: "g1", Of: "g1"}, {ID: "g1.c1", Of: "g1"}}
	}
}

// A replica that was just cloned to its new volume may take over before the controller has seen it follow.
func TestAnInstanceThatBecamePrimaryOnItsNewVolumeHasMoved(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		moved  bool
	}{
		"it serves":                 {observedtest.OrNothing(nil), true},
		"it accepts no connections": {func(o *observed.Cluster) { observedtest.Unready(o, 2) }, false},
		"it is on its old volume":   {func(o *observed.Cluster) { o.Cluster.Status.StorageMove.Current.VolumeUID = o.Claim(2).UID }, false},
	} {
		o := asked(observedtest.All(approve, moved(2), func(o *observed.Cluster) {
			o.Cluster.Status.StorageMove.Current = &v1alpha1.CurrentStorageMove{Instance: "shop-2", VolumeUID: "vshop-2", State: v1alpha1.InstanceMoveCloning}
			observedtest.SwitchedTo(o, "shop-2")
			c.change(o)
		}))
		outcome := (&Steps{}).Continue(t.Context(), o)
		if is := o.Cluster.Status.StorageMove.Current == nil; is != c.moved {
			t.Errorf("%s: its move has ended: %v, %+v", name, is, outcome)
		}
	}
}

// out has an instance leave its volume, fenced, and no longer in the Lease.
func out(name string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		ordinal := o.Names.Ordinal(name)
		o.Cluster.Status.StorageMove.Current = &v1alpha1.CurrentStorageMove{Instance: name, VolumeUID: o.Claim(ordinal).UID, State: v1alpha1.InstanceMoveLeaving}
		observedtest.Unready(o, ordinal)
		o.Agents[name].State, o.Agents[name].Replication = agentapi.StateStopped, nil
		primary := o.Agents["shop-0"].Election
		primary.Members = slices.DeleteFunc(slices.Clone(primary.Members), func(m string) bool { return m == name })
		observedtest.Tell(o)
	}
}

func sizeOf(o *observed.Cluster) string {
	size := volume.Size(o.Cluster)
	return size.String()
}
