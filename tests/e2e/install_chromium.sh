#!/bin/sh
# Browser tests drive the system's Chromium. Installed through apt where it is missing and that is allowed.
set -eu
command -v chromium > /dev/null || command -v chromium-browser > /dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "Installing Chromium (browser tests)"
    apt-get update -qq > /dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-noto-cjk > /dev/null
    exit 0
fi
echo "Browser tests need Chromium: install the package 'chromium', then run make test again."
exit 1
