package client

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"time"
)

// ChecksumHeader carries a checksum of the body.
const ChecksumHeader = "X-Amz-Checksum-Crc32c"

// RefusesChecksum tells the answer of a server that doesn't know the checksum: objects are put there without. Frames, manifests and WAL
// carry theirs.
func RefusesChecksum(code, message string) bool {
	known := code == "NotImplemented" || code == "InvalidArgument" && strings.Contains(strings.ToLower(message), "unsupported header")
	return known && !strings.Contains(message, "If-None-Match")
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum of a body, as the header has it. It is computed only if it is not known.
func Checksum(body []byte, known *uint32) string {
	if known != nil {
		return encode(*known)
	}
	return encode(crc32.Checksum(body, castagnoli))
}

func encode(sum uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// NoVersions tells the answers of servers that have no versions or no object lock, here or at all.
func NoVersions(code string) bool {
	return slices.Contains([]string{
		"NotImplemented", "MethodNotAllowed", "VersioningNotConfigured", "ObjectLockConfigurationNotFoundError", "ObjectLockConfigurationNotFound",
	}, code)
}

// NoLock tells the answers about an object that has no lock, also because its bucket has none.
func NoLock(code string) bool {
	return NoVersions(code) || slices.Contains([]string{"NoSuchObjectLockConfiguration", "InvalidRequest"}, code)
}

const day = 24 * time.Hour

// LockTime is the time of an object lock, which is set in days or years.
func LockTime(days, years int) time.Duration {
	return time.Duration(days)*day + time.Duration(years)*365*day
}
