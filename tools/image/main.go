// Command image packs a program into an OCI image without a build engine, and looks at the result.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"
)

const usage = `usage:
  image write   --name NAME --program FILE --version V --revision R --epoch SECONDS --out DIR
                packs the program NAME (run-operator, kubectl-runop, reference-service) into the OCI layout DIR and, the same as one
                file, DIR.tar; prints the digest
  image verify  [--most MIB] DIR
                holds the layout DIR and DIR.tar to what the image promises; unpacked it has 30 MiB at most, or MIB
  image rootfs  DIR     writes every file of the image but the program into DIR, for the Dockerfile
  image unpack  LAYOUT DIR
                writes the image's file system into DIR
  image index   [--revision R] --out DIR LAYOUT...
                joins the images of several architectures into the OCI layout DIR and, the same as one file, DIR.tar;
                prints the digest; images of another commit than R are refused
  image digest  LAYOUT  prints the digest of the layout's image or index
  image push    LAYOUT REPOSITORY:TAG
                copies it to a registry, unless the tag has another digest; prints the digest
  image resolve REFERENCE
                prints the digest that a registry has under this name
  image holds   REFERENCE FILE
                prints the digest of what is published if FILE is a layer of it, "absent" if nothing is
  image sbom    --in FILE --crates FILE --linked NAME@VERSION --schemas DIR --epoch SECONDS --out FILE
                makes cargo-cyclonedx's bill of materials that of the image, the same wherever it was made`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no command\n%s", usage)
	}
	command, rest := args[0], args[1:]
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprintln(os.Stderr, usage) }
	switch command {
	case "write":
		return runWrite(flags, rest)
	case "sbom":
		return runSBOM(flags, rest)
	case "index":
		return runIndex(flags, rest)
	case "verify":
		return runVerify(flags, rest)
	}
	wanted, known := map[string]int{
		"rootfs": 1, "unpack": 2, "digest": 1, "push": 2, "resolve": 1, "holds": 2,
	}[command]
	if !known || len(rest) != wanted {
		return fmt.Errorf("not a command: %q\n%s", args, usage)
	}
	switch command {
	case "rootfs":
		return writeDirectory(rest[0], systemFiles())
	case "unpack":
		return unpack(rest[0], rest[1])
	case "digest":
		top, err := topOf(rest[0])
		return printed(top.Digest, err)
	case "push":
		return printed(push(rest[0], rest[1]))
	case "resolve":
		return printed(resolve(rest[0]))
	default:
		return printed(holds(rest[0], rest[1]))
	}
}

// printed prints a result, unless there was an error.
func printed[T any](result T, err error) error {
	if err == nil {
		fmt.Println(result)
	}
	return err
}

func runVerify(flags *flag.FlagSet, args []string) error {
	most := flags.Int("most", maxBytes>>20, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("verify needs one DIR\n%s", usage)
	}
	maxBytes = *most << 20
	return verify(flags.Arg(0))
}

func runIndex(flags *flag.FlagSet, args []string) error {
	out := flags.String("out", "", "")
	revision := flags.String("revision", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" {
		return fmt.Errorf("index needs --out\n%s", usage)
	}
	return printed(writeIndex(flags.Args(), *revision, *out))
}

func runWrite(flags *flag.FlagSet, args []string) error {
	var from release
	var out string
	name := flags.String("name", "", "")
	flags.StringVar(&from.program, "program", "", "")
	flags.StringVar(&from.version, "version", "", "")
	flags.StringVar(&from.revision, "revision", "", "")
	flags.StringVar(&out, "out", "", "")
	epoch := epochFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if from.of, err = subjectOf(*name); err != nil {
		return err
	}
	if from.program == "" || from.version == "" || from.revision == "" || out == "" {
		return fmt.Errorf("write needs --program, --version, --revision and --out\n%s", usage)
	}
	from.created = *epoch
	digest, err := write(from, out)
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}

func runSBOM(flags *flag.FlagSet, args []string) error {
	var linked []string
	in := flags.String("in", "", "")
	crates := flags.String("crates", "", "")
	schemas := flags.String("schemas", "", "")
	out := flags.String("out", "", "")
	flags.Func("linked", "", func(text string) error {
		linked = append(linked, text)
		return nil
	})
	epoch := epochFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	return writeSBOM(*in, *crates, *schemas, *out, linked, *epoch)
}

// epochFlag is the time of the source, in seconds since 1970: the time of the build would make each build another.
func epochFlag(flags *flag.FlagSet) *time.Time {
	at := time.Unix(0, 0).UTC()
	flags.Func("epoch", "", func(text string) error {
		seconds, err := strconv.ParseInt(text, 10, 64)
		at = time.Unix(seconds, 0).UTC()
		return err
	})
	return &at
}
