package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Directories are the directories of the process that are recorded in: two handlers,
// or an old configuration and a new one, may have the same. The zero value has none.
type Directories struct {
	mu     sync.Mutex
	byPath map[string]*directory
}

// get returns the directory with the path.
func (d *Directories) get(path string) *directory {
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byPath == nil {
		d.byPath = make(map[string]*directory)
	}
	if d.byPath[path] == nil {
		d.byPath[path] = newDirectory(path)
	}
	return d.byPath[path]
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

// CheckWritable reports why files cannot be made in a directory, or the directory
// in the one it would be in. It leaves neither: what says so for certain, with
// capabilities, read-only mounts and quotas, is only a file.
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
