package caddymodule

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/repair"
)

// Bounds of recordings.
const (
	// defaultRecordMax is how many bytes all of a directory may take.
	defaultRecordMax = 100_000_000
	// recordShare is which part of that one of them may take.
	recordShare = 10
	// maxRecordings is how many there may be.
	maxRecordings = 1000
	// diskBlock is what the size of a file is rounded up to.
	diskBlock = 4 << 10
)

// The names of recordings, without their extensions. Files of other names are
// none of ours.
const (
	recordingPrefix = "hermes-"
	recordingTime   = "20060102T150405.000Z"
)

var recordingName = regexp.MustCompile(`^(` + recordingPrefix + `[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-[0-9a-f]{8})\.(sse|json)$`)

// shelf knows the recordings in a directory, and keeps them within bounds: those
// that are under way have their share reserved, the oldest of the others go
// first. It reads the directory once, and again where it is another one.
type shelf struct {
	dir string

	mu    sync.Mutex
	max   int64            // bytes of all recordings together, 0 before they are known
	read  fs.FileInfo      // the directory that has been read, nil for none
	kept  []shelved        // the oldest first
	open  map[string]int64 // what is reserved for those under way
	taken int64            // bytes kept and reserved
}

// shelved is a recording that has ended.
type shelved struct {
	name string
	size int64
}

var errNoRoom = errors.New("the streams that are being recorded take all of record_max")

func newShelf(dir string) *shelf { return &shelf{dir: dir, open: make(map[string]int64)} }

// limit sets how many bytes all recordings may take. While the configuration that
// wants it does not run for good, and may be refused yet, the limit of the one that
// does stays.
func (s *shelf) limit(max int64, forGood bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if forGood || s.max == 0 {
		s.max = max
	}
}

func (s *shelf) path(name string) string { return filepath.Join(s.dir, name) }

// reserve makes room for the recording with the name, and returns how many bytes
// it may have.
func (s *shelf) reserve(name string) (share int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.look(); err != nil {
		return 0, err
	}
	share = s.max / recordShare
	for s.taken+share > s.max || len(s.kept)+len(s.open) >= maxRecordings {
		if len(s.kept) == 0 {
			return 0, errNoRoom
		}
		if err := s.remove(s.kept[0].name); err != nil {
			return 0, err
		}
		s.taken -= s.kept[0].size
		s.kept = s.kept[1:]
	}
	s.open[name] = share
	s.taken += share
	return share, nil
}

// keep notes that the recording has ended, with a size in bytes.
func (s *shelf) keep(name string, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(name)
	size = blocks(size) + diskBlock // of the small one beside it
	s.kept = append(s.kept, shelved{name, size})
	s.taken += size
}

// drop notes that there is no recording with the name.
func (s *shelf) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(name)
}

func (s *shelf) release(name string) {
	s.taken -= s.open[name]
	delete(s.open, name)
}

// blocks returns what a file of size bytes takes.
func blocks(size int64) int64 { return (size + diskBlock - 1) / diskBlock * diskBlock }

// look makes the directory, also where somebody has removed it, and finds the
// recordings that are in it already.
func (s *shelf) look() error {
	dir, err := os.Stat(s.dir)
	if err == nil && s.read != nil && os.SameFile(s.read, dir) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(s.dir, 0o700); err == nil {
			dir, err = os.Stat(s.dir)
		}
	}
	if err == nil {
		err = checkLink(s.dir)
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(s.dir) // sorted by name, and so by time
	if err != nil {
		return err
	}
	s.kept, s.taken = nil, 0
	for _, share := range s.open {
		s.taken += share
	}
	for _, e := range entries {
		m := recordingName.FindStringSubmatch(e.Name())
		info, err := e.Info()
		if m == nil || err != nil || !info.Mode().IsRegular() || s.open[m[1]] > 0 {
			continue
		}
		size := blocks(info.Size())
		i, found := slices.BinarySearchFunc(s.kept, m[1], func(a shelved, name string) int { return strings.Compare(a.name, name) })
		if found {
			s.kept[i].size += size
		} else {
			s.kept = slices.Insert(s.kept, i, shelved{m[1], size})
		}
		s.taken += size
	}
	s.read = dir
	return nil
}

// write writes a file whole or not at all. It follows no link that somebody has
// put where the file comes, or is written before.
func (s *shelf) write(name string, b []byte) error {
	temporary, err := os.CreateTemp(s.dir, name+".*.tmp") // mode 0600, and new
	if err != nil {
		return err
	}
	_, err = temporary.Write(b)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), s.path(name))
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
	}
	return err
}

// remove removes a recording. One that is gone already is no error.
func (s *shelf) remove(name string) error {
	for _, extension := range []string{repair.Extension, repair.MetaExtension} {
		if err := os.Remove(s.path(name + extension)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// shelves are the shelves of the process, by their directory: two handlers, or
// an old configuration and a new one, may have the same.
type shelves struct {
	mu    sync.Mutex
	byDir map[string]*shelf
}

// get returns the shelf of a directory.
func (s *shelves) get(dir string) *shelf {
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byDir == nil {
		s.byDir = make(map[string]*shelf)
	}
	if s.byDir[dir] == nil {
		s.byDir[dir] = newShelf(dir)
	}
	return s.byDir[dir]
}

// checkLink refuses a directory that is a symbolic link where anybody may have put
// it, such as in /tmp.
func checkLink(dir string) error {
	link, err := os.Lstat(dir)
	if err != nil || link.Mode()&fs.ModeSymlink == 0 {
		return nil // what else is wrong shows when it is used
	}
	const others = 0o002
	if in, err := os.Stat(filepath.Dir(dir)); err == nil && in.Mode().Perm()&others == 0 {
		return nil
	}
	return fmt.Errorf("%s is a symbolic link in a directory that anybody can write to: name the directory itself", dir)
}

// checkWritable reports why files cannot be made in a directory, or the directory
// in the one it would be in. It leaves neither: what says so for certain, with
// capabilities, read-only mounts and quotas, is only a file.
func checkWritable(dir string) error {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = checkLink(dir)
	}
	if err != nil {
		return err
	}
	for {
		file, err := os.CreateTemp(dir, ".hermes-check-*")
		if err == nil {
			return errors.Join(file.Close(), os.Remove(file.Name()))
		}
		up := filepath.Dir(dir)
		if _, there := os.Lstat(dir); !errors.Is(there, fs.ErrNotExist) || up == dir {
			return err
		}
		dir = up
	}
}
