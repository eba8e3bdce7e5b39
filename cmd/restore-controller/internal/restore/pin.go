package restore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/restore-controller/internal/planning"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/sealed"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/repostore"
	"howdah.dev/howdah/pkg/volumelock"
)

const (
	// walInterval is the time between two looks into the bucket, for WAL that is awaited or after an error.
	walInterval = 5 * time.Second
	// lookInterval is for reads that somebody else wakes us for, should that be missed.
	lookInterval = time.Minute
)

// pinPlan records how the target will be reached, or refuses it. From here on every repeat does the same, whatever is
// archived or deleted meanwhile.
func (r *Reconciler) pinPlan(_ context.Context, o *observed) flow.Outcome {
	if o.restore.Status.Plan != nil {
		return flow.Next
	}
	target, err := targetOf(o.restore)
	if err != nil {
		return flow.Stop(v1alpha1.ReasonInvalidSpec, flow.Sentence(err.Error()))
	}
	question, repo := o.question(target), o.repository.DeepCopy()
	report, err, done := look(r.reports, o.restore, "", func(ctx context.Context) (planning.Report, error) {
		store, err := r.Open(ctx, r.Live, repo)
		if err != nil {
			return planning.Report{}, err
		}
		return planning.Read(ctx, store, question, r.Now)
	})
	// Both reads are one wait, and have one message: a message for each would change back and forth where the process keeps restarting.
	looking := flow.Poll(lookInterval, v1alpha1.ReasonPlanning, fmt.Sprintf("Looking in BackupRepository %s for backups and WAL that lead to %s.", repo.Name, target))
	if !done {
		return looking
	}
	if err != nil {
		return unreadable(repo.Name, err)
	}
	verdict := pitr.Decide(report.Candidates, target, o.facts(report.At))
	if verdict.Code == pitr.Reachable {
		header, outcome := r.readHeaderOf(o, verdict.Candidate.Lineage, verdict.Candidate.Reach.Backup.ID, looking)
		if header == nil {
			return outcome
		}
		return r.pin(o, header, verdict)
	}
	reason, message := planning.Phrase(verdict, o.sourceText(), o.now)
	if verdict.Code == pitr.NotArchivedYet {
		return flow.Poll(walInterval+time.Second, reason, message)
	}
	return flow.Stop(reason, message)
}

// unreadable says what an error in the bucket means.
func unreadable(repo string, err error) flow.Outcome {
	switch {
	case errors.Is(err, planning.ErrNotThere):
		return flow.Stop(v1alpha1.ReasonBackupNotFound, flow.Sentence(err.Error()))
	case errors.Is(err, planning.ErrAmbiguous), errors.Is(err, backup.ErrTooLarge):
		return flow.Stop(v1alpha1.ReasonInvalidSpec, flow.Sentence(err.Error()))
	case errors.Is(err, backup.ErrCorrupt), errors.Is(err, wal.ErrCorrupt):
		return flow.Stop(v1alpha1.ReasonDataCorrupt, flow.Sentence(err.Error()))
	case errors.Is(err, backup.ErrFormat), errors.Is(err, layout.ErrFormat), errors.Is(err, wal.ErrFormat):
		return flow.Stop(v1alpha1.ReasonInvalidSpec, flow.Sentence(err.Error()))
	}
	message := err.Error()
	if fault := (&objstore.Error{}); errors.As(err, &fault) || errors.Is(err, objstore.ErrConfig) {
		message = objstore.Explain(err)
	}
	reason := v1alpha1.ReasonRepositoryNotReady
	if errors.Is(err, repostore.ErrSecret) {
		reason = v1alpha1.ReasonSecretNotFound
	} else if about := sealed.Reason(err); about != "" {
		reason = about
	}
	return flow.Poll(walInterval+time.Second, reason, fmt.Sprintf("BackupRepository %s can't be read: %s", repo, flow.Sentence(message)))
}

// targetOf reads spec.target.
func targetOf(restore *v1alpha1.Restore) (pitr.Target, error) {
	wanted := restore.Spec.Target
	if wanted == nil {
		return pitr.Target{}, nil
	}
	target := pitr.Target{
		RestorePoint: wanted.RestorePoint, XID: wanted.XID, Immediate: wanted.Immediate, Inclusive: wanted.Inclusive,
		Timeline: uint32(wanted.Timeline), // the API server has checked its range
	}
	if wanted.Time != "" {
		at, err := time.Parse(time.RFC3339Nano, wanted.Time)
		if err != nil {
			return pitr.Target{}, fmt.Errorf("spec.target.time %q is not a timestamp with a time zone; write it like 2026-03-01T12:03:10Z", wanted.Time)
		}
		target.Time = &at
	}
	if wanted.LSN == "" {
		return target, nil
	}
	lsn, err := postgres.ParseLSN(wanted.LSN)
	if err != nil || lsn.IsZero() {
		return pitr.Target{}, fmt.Errorf("spec.target.lsn %q is not a WAL position; write it as PostgreSQL prints it, such as 16/B374D848", wanted.LSN)
	}
	target.LSN = lsn
	return target, nil
}

func (o *observed) question(target pitr.Target) planning.Question {
	q := planning.Question{Namespace: o.restore.Namespace, Target: target}
	switch source := o.restore.Spec.Source; {
	case o.backup != nil:
		q.Lineage, q.BackupID = o.backup.Status.Plan.Lineage, o.backup.Status.Plan.ID
	case source.Repository != nil:
		q.Lineage, q.BackupID = planning.ParsePath(source.Repository.Path)
	default:
		q.Cluster = source.Cluster.Name
	}
	if o.source != nil && o.backup == nil {
		q.ClusterUID = string(o.source.Identity())
	}
	return q
}

// sourceText names what is restored, for sentences.
func (o *observed) sourceText() string {
	switch source := o.restore.Spec.Source; {
	case o.backup != nil:
		return "Backup " + o.backup.Name
	case source.Repository != nil:
		return strings.TrimSpace("BackupRepository " + source.Repository.Name + " " + source.Repository.Path)
	default:
		return "cluster " + source.Cluster.Name
	}
}

// facts are what is known of the source besides its bucket, which was read at a time.
func (o *observed) facts(read time.Time) pitr.Facts {
	facts := pitr.Facts{Now: o.now, Read: read, Asked: o.restore.CreationTimestamp.Time}
	live := o.source
	if o.source != nil && o.backup == nil {
		facts.Present = protocol.Lineage(o.source.Status.SystemIdentifier, o.source.Status.DataGeneration)
	}
	if o.restore.Spec.Source.Repository != nil && o.inPlace() {
		live = o.cluster // the one whose archive it may be
	}
	if archive := liveArchive(live); archive != nil && archive.Repository == o.repositoryName() {
		facts.Live, facts.Settle = archive.Lineage, settle(live)
		if since := archive.WaitingSince; since != nil {
			facts.Behind = since.Time
		}
	}
	return facts
}

// liveArchive is the archive that a running cluster writes to without trouble, or nil.
func liveArchive(cluster *v1alpha1.PostgresCluster) *v1alpha1.ArchiveStatus {
	if !volumelock.Ready(cluster) || !cluster.DeletionTimestamp.IsZero() || cluster.Status.Archive == nil ||
		cluster.Status.Archive.FailingSince != nil ||
		!meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionArchiving) {
		return nil
	}
	return cluster.Status.Archive
}

// settle is the time after which what a live cluster has committed is archived, even if it was the last thing for long:
// archive_timeout, and a minute for the way. Zero: there is no such time.
func settle(cluster *v1alpha1.PostgresCluster) time.Duration {
	text, set := cluster.Spec.PostgreSQL.Parameters["archive_timeout"]
	if !set {
		text = v1alpha1.ParameterValue(defaultArchiveTimeout())
	}
	timeout, ok := parseSeconds(string(text))
	if !ok || timeout <= 0 {
		return 0
	}
	return timeout + time.Minute
}

func defaultArchiveTimeout() string {
	for _, p := range postgres.DefaultParameters(postgres.NewestMajor, 0, 0) {
		if p.Name == "archive_timeout" {
			return p.Value
		}
	}
	return "0"
}

// parseSeconds reads a parameter that PostgreSQL takes for seconds where there is no unit.
func parseSeconds(text string) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz ")
	unit, known := map[string]time.Duration{
		"": time.Second, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
		"min": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}[strings.TrimSpace(text[len(number):])]
	n, err := strconv.ParseFloat(number, 64)
	return time.Duration(n * float64(unit)), known && err == nil
}

// pin records the plan, once it is known that the destination can take it.
func (r *Reconciler) pin(o *observed, header *backup.Header, verdict pitr.Verdict) flow.Outcome {
	reach := verdict.Candidate.Reach
	into, outcome := r.takes(o, header)
	if !outcome.Finished() {
		return outcome
	}
	o.restore.Status.Plan = &v1alpha1.RestorePlan{
		Repository: o.repository.Name, Lineage: header.Lineage, BackupID: header.ID,
		Timeline: int64(reach.Timeline), FirstWAL: reach.First().Name(), LastWAL: reach.Last().Name(), WALSegments: reach.Segments(),
		MajorVersion: int32(header.PGMajor), Image: into.image, SystemIdentifier: header.SystemIdentifier,
		FetchBytes: fetchBytes(header), WriteBytes: header.Totals.LogicalBytes,
		Target: verdict.Target.String(), StopAt: stopAt(verdict),
		DataGeneration: protocol.DataGeneration(o.restore.UID, 0),
		ArchivesTo:     into.archive, Secrets: into.secrets, Dropped: into.shown(), Accepted: into.accepted, RecordedBy: into.recordedBy(header),
		DamagedPages: damagedPages(header), Damaged: firstDamaged(header),
	}
	o.foresee(reach)
	o.restore.Status.StartedAt = &metav1.Time{Time: o.now}
	return flow.Save(v1alpha1.ReasonPlanned, fmt.Sprintf("The plan is to restore backup %s and replay at most %d WAL segments, to %s.", header.ID, reach.Segments(), verdict.Target)+
		damaged(o.restore.Status.Plan))
}

// damagedPages is how many pages of a backup were damaged already when it was taken.
func damagedPages(header *backup.Header) int64 {
	if header.Damage == nil {
		return 0
	}
	return int64(max(1, header.Damage.Count))
}

// firstDamaged names some of them.
func firstDamaged(header *backup.Header) (pages []v1alpha1.DamagedPage) {
	if header.Damage == nil {
		return nil
	}
	for _, page := range header.Damage.Pages[:min(agentapi.MaxDamaged, len(header.Damage.Pages))] {
		pages = append(pages, v1alpha1.DamagedPage{File: page.File, Block: int64(page.Block)})
	}
	return pages
}

// taker is what becomes of the data: the image that runs it, and of a new cluster where it archives, and its Secrets.
type taker struct {
	image, archive string
	secrets        []string
	admission
}

// recordedBy is the cluster whose record is not taken as it is.
func (t taker) recordedBy(header *backup.Header) *v1alpha1.RecordedCluster {
	if len(t.dropped)+len(t.accepted) == 0 {
		return nil
	}
	return &v1alpha1.RecordedCluster{Namespace: header.Cluster.Namespace, Name: header.Cluster.Name, UID: header.Cluster.UID}
}

// takes says whether the destination can take what a backup holds.
func (r *Reconciler) takes(o *observed, header *backup.Header) (taker, flow.Outcome) {
	if o.inPlace() {
		o.restore.Status.Cluster = &v1alpha1.CreatedCluster{Name: o.cluster.Name, UID: o.cluster.UID}
		return taker{image: o.cluster.Status.Image}, fitsInPlace(o, header)
	}
	into := taker{archive: archiveTo(o, o.repository.Name)}
	by := o.provenance()
	spec, admitted, err := newSpec(header, o.restore, into.archive, by)
	if err == nil {
		into.image, err = r.imageFor(header, spec, by)
	}
	if err != nil {
		return taker{}, flow.Stop(v1alpha1.ReasonInvalidSpec, flow.Sentence(err.Error()))
	}
	secrets, planted := by.secretsOf(header, o.restore, spec)
	into.secrets, into.admission = secrets, admitted
	into.dropped = append(into.dropped, planted...)
	return into, flow.Next
}

func stopAt(verdict pitr.Verdict) *v1alpha1.RestoreTarget {
	target := verdict.StopAt
	if target.End() {
		target.LSN = verdict.Bound
	}
	if target.End() {
		return nil
	}
	stop := &v1alpha1.RestoreTarget{
		RestorePoint: target.RestorePoint, XID: target.XID, Immediate: target.Immediate, Inclusive: target.Inclusive,
	}
	if target.Time != nil {
		stop.Time = target.Time.UTC().Format(time.RFC3339Nano)
	}
	if !target.LSN.IsZero() {
		stop.LSN = target.LSN.String()
	}
	return stop
}

// imageFor is the image that runs the data: what the Restore or the cluster had asked for, else the suite's for this major
// version, else, if the record is trusted, the one that ran it.
func (r *Reconciler) imageFor(header *backup.Header, spec *v1alpha1.PostgresClusterSpec, by provenance) (string, error) {
	images := []string{spec.Image, r.Images[int32(header.PGMajor)]}
	if by.trusted {
		images = append(images, header.Cluster.Image)
	}
	for _, image := range images {
		if image != "" {
			return image, nil
		}
	}
	return "", fmt.Errorf("the backup is from PostgreSQL %d, and no image is known for it: set spec.destination.newCluster.image, or start the restore-controller with one (--postgres-images)", header.PGMajor)
}
