package recording

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

// Bounds of recordings.
const (
	defaultRecordMax = 100_000_000 // bytes of all recordings in a directory together
	recordShare      = 10          // one recording may take 1/recordShare of them
	maxRecordings    = 1000        // the number of recordings in a directory
	diskBlock        = 4 << 10     // file sizes are rounded up to a multiple of it, in bytes
)

// The names of recordings, without their extensions. Files with other names are not touched.
const (
	recordingPrefix = "hermes-"
	recordingTime   = "20060102T150405.000Z"
)

var recordingName = regexp.MustCompile(`^(` + recordingPrefix + `[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-[0-9a-f]{8})\.(sse|json)$`)

// directory keeps the recordings in a directory within bounds: recordings under way have their
// share reserved, and of the others the oldest are removed first. It keeps no list of the files:
// they are few, and other programs may remove them.
type directory struct {
	path string

	mu   sync.Mutex
	max  int64            // bytes of all recordings together, 0 before the first begin
	open map[string]int64 // the reserved shares of the recordings under way, by name
}

var errNoRoom = errors.New("the streams being recorded have used up record_max")

func (d *directory) file(name string) string { return filepath.Join(d.path, name) }

// begin makes room for the recording with the name, and creates its file, which may have share
// bytes. All recordings may take max bytes. forGood says that the configuration runs for good;
// otherwise it may still be refused, and a limit that is set stays.
func (d *directory) begin(name string, max int64, forGood bool) (file *os.File, share int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if forGood || d.max == 0 {
		d.max = max
	}
	names, sizes, err := d.ended()
	if err != nil {
		return nil, 0, err
	}
	share = d.max / recordShare
	taken := share
	for _, reserved := range d.open {
		taken += reserved
	}
	for _, size := range sizes {
		taken += size
	}
	for ; taken > d.max || len(names)+len(d.open) >= maxRecordings; names = names[1:] {
		if len(names) == 0 {
			return nil, 0, errNoRoom
		}
		if err := d.remove(names[0]); err != nil {
			return nil, 0, err
		}
		taken -= sizes[names[0]]
	}
	if file, err = d.create(name + Extension); err == nil {
		d.open[name] = share
	}
	return file, share, err
}

// release frees the share that begin has reserved.
func (d *directory) release(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, name)
}

// ended returns the names of the recordings in the directory that have ended, the oldest first,
// and their sizes in bytes. It creates the directory if there is none.
func (d *directory) ended() (names []string, sizes map[string]int64, err error) {
	if err := errors.Join(os.MkdirAll(d.path, 0o700), checkLink(d.path)); err != nil {
		return nil, nil, err
	}
	sizes = make(map[string]int64)
	entries, err := os.ReadDir(d.path) // sorted by name, and so by time
	for _, e := range entries {
		m := recordingName.FindStringSubmatch(e.Name())
		if m == nil || !e.Type().IsRegular() || d.open[m[1]] > 0 {
			continue // only sizes of recordings are read: the directory may be large
		}
		info, err := e.Info()
		if err != nil {
			continue // it was removed
		}
		if _, known := sizes[m[1]]; !known {
			names = append(names, m[1])
		}
		sizes[m[1]] += (info.Size() + diskBlock - 1) / diskBlock * diskBlock
	}
	return names, sizes, err
}

// create creates a file. It removes a symbolic link of that name instead of following it.
func (d *directory) create(name string) (*os.File, error) {
	_ = os.Remove(d.file(name)) // usually there is none: the name is random
	return os.OpenFile(d.file(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// remove removes the files of a recording. A missing file is no error.
func (d *directory) remove(name string) error {
	for _, extension := range []string{Extension, MetaExtension} {
		if err := os.Remove(d.file(name + extension)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Directories are the directories in which the process records. Two handlers, or an old
// configuration and a new one, may use the same directory. The zero value has none.
type Directories struct{ byPath sync.Map }

// get returns the directory with the path.
func (d *Directories) get(path string) *directory {
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	one, _ := d.byPath.LoadOrStore(path, &directory{path: path, open: make(map[string]int64)})
	return one.(*directory)
}

// checkLink refuses a symbolic link in a directory that any user may write to, such as /tmp.
func checkLink(dir string) error {
	link, err := os.Lstat(dir)
	if err != nil || link.Mode()&fs.ModeSymlink == 0 {
		return nil // other errors show when the directory is used
	}
	const others = 0o002
	if in, err := os.Stat(filepath.Dir(dir)); err == nil && in.Mode().Perm()&others == 0 {
		return nil
	}
	return fmt.Errorf("%s is a symbolic link in a directory that anybody can write to: name the directory itself", dir)
}

// CheckWritable returns an error if no file can be created in dir or, if dir does not exist, in
// the nearest directory above it. It creates a file and removes it again: only that takes
// capabilities, read-only mounts and quotas into account.
func CheckWritable(dir string) error {
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
