package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// peerSpring is Spring Cloud Gateway in the smallest application around it, which has
// one route. Its JVM believes in one core, and has one event loop instead of four.
// It is not warm after the requests of a measurement: its first chunks get faster for
// hundreds of them. What it keeps of a stream fits into the heap that it has already.
func peerSpring() (peer, error) {
	p := peer{name: "Spring Cloud Gateway 5.0.3", path: chatCompletions, install: peerJars("spring", "Gateway")}
	for _, name := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(name); err != nil {
			return p, fmt.Errorf("it needs a JDK, 17 or newer, and Maven: %w", err)
		}
	}
	const conf = `server.address=LISTEN_HOST
server.port=LISTEN_PORT
spring.main.banner-mode=off
logging.level.root=error
spring.cloud.gateway.server.webflux.httpclient.connect-timeout=5000
spring.cloud.gateway.server.webflux.httpclient.response-timeout=10m
spring.cloud.gateway.server.webflux.routes[0].id=hermes
spring.cloud.gateway.server.webflux.routes[0].uri=http://UPSTREAM
spring.cloud.gateway.server.webflux.routes[0].predicates[0]=Path=/**
`
	p.start = func(dir, work, listen, upstream string) (*exec.Cmd, error) {
		text, err := peerFill(conf, listen, upstream)
		if err != nil {
			return nil, err
		}
		if _, err := peerConfig(work, "application.properties", text); err != nil {
			return nil, err
		}
		return peerCommand(work, nil, "java", "-XX:ActiveProcessorCount=1", "-XX:-UsePerfData", "-Dreactor.netty.ioWorkerCount=1",
			"-Djava.io.tmpdir="+work, "-cp", dir+string(filepath.ListSeparator)+filepath.Join(dir, "lib", "*"), "Gateway"), nil
	}
	return p, nil
}

// peerJars fetches what the pom.xml in a directory of peers/ names, and compiles the
// one class beside it.
func peerJars(name, class string) func(dir string) error {
	return func(dir string) error {
		files, err := fs.Sub(peerLocks, "peers/"+name)
		if err != nil {
			return err
		}
		var lock []byte
		for _, file := range []string{"pom.xml", class + ".java"} {
			b, err := fs.ReadFile(files, file)
			if err != nil {
				return err
			}
			lock = append(lock, b...)
		}
		return peerOnce(dir, lock, func() error {
			if err := os.CopyFS(dir, files); err != nil {
				return err
			}
			if _, err := peerRun(dir, "mvn", "--quiet", "--batch-mode",
				"org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=lib"); err != nil {
				return err
			}
			_, err := peerRun(dir, "javac", "-cp", filepath.Join("lib", "*"), class+".java")
			return err
		})
	}
}
