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

// WantsChecksum tells the answer of a bucket with an object lock, which takes no object without a checksum of its body. No
// other bucket gets one: frames, manifests and WAL carry theirs.
func WantsChecksum(code, message string) bool {
	return code == "InvalidRequest" && strings.Contains(message, "Content-MD5") || code == "MissingContentMD5"
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum of a body, as the header has it.
func Checksum(body []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, castagnoli)))
}

// NoVersions tells the answers of servers that have no versions or no object lock, here or at all.
func NoVersions(code string) bool {
	return slices.Contains([]string{
		"NotImplemented", "MethodNotAllowed", "VersioningNotConfigured", "ObjectLockConfigurationNotFoundError", "ObjectLockConfigurationNotFound",
	}, code)
}

const day = 24 * time.Hour

// LockTime is the time of an object lock, which is set in days or years.
func LockTime(days, years int) time.Duration {
	return time.Duration(days)*day + time.Duration(years)*365*day
}
