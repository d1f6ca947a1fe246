#!/bin/sh
':' /* To here and from the end of this comment on it is JavaScript, in between a script of the shell.
# The shell starts the program in the usual places of npm and pnpm, many times faster than Node would. Everything else is
# left to the part for Node, which some package managers also start at once: it finds the program wherever it is and says
# what is wrong.
crib_self=$0 crib_name= crib_loader=
[ -h "$crib_self" ] && crib_self=$(readlink -f "$crib_self")
crib_package=${crib_self%/bin/*}
case $(uname -sm) in
'Linux x86_64') crib_name=linux-x64-gnu crib_loader=/lib64/ld-linux-x86-64.so.2 ;;
'Linux aarch64') crib_name=linux-arm64-gnu crib_loader=/lib/ld-linux-aarch64.so.1 ;;
'Darwin x86_64') crib_name=darwin-x64 crib_loader=/ ;;
'Darwin arm64') crib_name=darwin-arm64 crib_loader=/ ;;
esac
for crib_modules in "$crib_package/node_modules" "${crib_package%/*}"; do
	crib_program=$crib_modules/@toolcrib/$crib_name/bin/toolcrib
	[ -e "$crib_loader" ] && [ -x "$crib_program" ] && exec "$crib_program" "$@"
done
exec node "$crib_self" "$@"
*/

// The program is in an optional dependency of this package, one for each platform, which `platforms.json` lists. Where
// Node can replace its own process with the program, it does, so that signals, streams and the exit code are the
// program's own. Elsewhere the program is a child that gets this process's streams and signals.
'use strict';

const fs = require('node:fs');
const { platforms, sources } = require('../platforms.json');

// What ends a program from outside. Those of a terminal's keys reach the child by themselves.
const SIGNALS = ['SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGHUP'];
const OF_KEYS = ['SIGINT', 'SIGQUIT'];

function fail(error, hint) {
  fs.writeSync(2, `error: ${error}\nhint: ${hint}\n`);
  process.exit(1);
}

// The path of the program; what keeps it from running is said here, because a failed `execve` cannot be caught.
function program() {
  const here = `${process.platform}-${process.arch}`;
  const platform = platforms.find(({ os, cpu }) => `${os}-${cpu}` === here);
  if (!platform) {
    fail(`there is no package of toolcrib for ${here}`, sources);
  }
  if (platform.loader && !fs.existsSync(platform.loader)) {
    fail(
      `toolcrib needs glibc, and this system has no \`${platform.loader}\``,
      `use the container image, or a system with glibc 2.17 or newer, or ${sources}`,
    );
  }
  let path;
  try {
    path = require.resolve(`${platform.package}/bin/toolcrib`);
  } catch {
    fail(
      `the package \`${platform.package}\` is not installed`,
      'it is an optional dependency: remove `node_modules` and install again without `--no-optional` or ' +
        '`--omit=optional`, on this platform (`npm config get omit` shows whether optional ones are left out)',
    );
  }
  try {
    fs.accessSync(path, fs.constants.X_OK);
  } catch {
    fail(
      `\`${path}\` cannot be executed`,
      'make it executable with `chmod +x`, or install to a file system that is not mounted with `noexec`',
    );
  }
  return path;
}

function asChild(path, words) {
  const { spawn } = require('node:child_process');
  const { isatty } = require('node:tty');
  const hasTerminal = [0, 1, 2].some((stream) => isatty(stream));
  let child;
  // Listened to before the program starts, so that none is lost.
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      if (!hasTerminal || !OF_KEYS.includes(signal)) {
        child.kill(signal);
      }
    });
  }
  child = spawn(path, words, { stdio: 'inherit' });
  child.on('error', (error) => {
    fail(`\`${path}\` does not start: ${error.message}`, sources);
  });
  child.on('exit', (code, signal) => {
    if (signal) {
      // To whoever waits for this process it ended as the program did.
      process.removeAllListeners(signal);
      process.kill(process.pid, signal);
    } else {
      process.exit(code);
    }
  });
}

const path = program();
const words = process.argv.slice(2);
if (typeof process.execve === 'function') {
  process.execve(path, [path, ...words], process.env);
} else {
  asChild(path, words);
}
