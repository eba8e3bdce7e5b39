// Package pitr gives everybody who asks about point-in-time recovery the same answer: from a listing of backups, WAL segments
// and timeline histories alone it says which points in time can be restored, from which backup, and along which timelines.
//
// The restore-controller, the command line, retention and the recovery windows in the status of a repository all ask here, so
// they can't disagree. The package is pure: it reads and writes nothing, knows no clock, and phrases nothing. What only the
// content of a segment tells comes from Headers, which the caller implements; a Verdict is a Code with fields, which the caller
// phrases in the words of its own interface.
//
// The way from a listing to an answer:
//
//   - New makes the Graph of a Listing: its timelines, which backup leads to which of them, and how far WAL reaches after it.
//   - Graph.Windows are all times that can be restored, with the gaps between them.
//   - Graph.Examine chooses the backup for one Target, and Decide judges the lineages of a database that were examined.
//   - Graph.Leading, Graph.LeadingAt, Graph.NewestRestorable and Backup.FirstSegment are what retention asks.
//
// The rules:
//
//   - Unless a timeline is asked for, the newest one that has WAL or a backup is followed, as PostgreSQL does with
//     recovery_target_timeline = latest. A history without WAL counts for nothing yet: what its timeline begins with is still
//     on the one before.
//   - A backup leads to a timeline if it is on it, or stopped at or before the position where the timeline, or an ancestor of
//     it, branched off. One that was taken on a timeline after it had been left restores only that timeline.
//   - A newer timeline whose history is missing is never passed over: nothing tells where it begins.
//   - The segment in which a timeline begins is read from the younger timeline. A segment that is still written, and there in
//     pieces, counts only where nothing continues after it.
//   - PostgreSQL stops at a time only when it meets a transaction that ended later. Where the archive has none, everything in
//     it is wanted, provided that nothing else was committed until then: a backup that stopped later on the same path proves
//     that.
package pitr
