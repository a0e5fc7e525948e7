#!/usr/bin/env bash
# Opens every kind of page that the program writes in headless Chromium, in a wide and in a narrow window, and fails on a message
# in the console, on a page that is wider than its window, and on text in a picture that is cut off or lies on other text.
# Skipped (77) where there is no Chromium.
# Usage: browser_test.sh SEQGRAD
set -euo pipefail

seqgrad=$1
browser=""
for name in chromium chromium-browser google-chrome; do
  [[ -n $browser ]] || browser=$(command -v "$name" || true)
done
if [[ -z $browser ]]; then
  echo "browser_test: skipped (no Chromium)"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir pages

fail() {
  echo "browser_test: $*" >&2
  exit 1
}

# The pages.
for study in selection averaging noisy-keys two-heads self-attention gradient; do
  "$seqgrad" study "$study" --samples 500 --html "pages/study-$study.html" >/dev/null
done
"$seqgrad" study bottleneck --steps 20 --longest 6 --sentences 4 --hidden 8 --html pages/study-bottleneck.html &>/dev/null ||
  [[ -f pages/study-bottleneck.html ]] || fail "no page of the bottleneck" # so little training refutes nothing
"$seqgrad" demo --out demo --epochs 1 &>/dev/null || [[ -f demo/report.html ]] || fail "no report of the demo"
cp demo/report.html pages/demo.html
corpus=(--train-source demo/corpus/valid.de --train-target demo/corpus/valid.en --valid-source demo/corpus/test.de
  --valid-target demo/corpus/test.en)
small=(--tokenizer whitespace --embedding 16 --hidden 16 --attention-dim 16 --epochs 2 --threads 1)
"$seqgrad" experiment "${corpus[@]}" "${small[@]}" --test-source demo/corpus/test.de --test-reference demo/corpus/test.en \
  --variants none,mean,sdp,bahdanau,luong_general --seeds 2 --out experiment &>/dev/null || fail "no experiment"
cp experiment/report.html pages/experiment.html
cp experiment/alignments.html pages/alignments.html
cp experiment/sdp-seed1/report.html pages/training.html

# A page that frames the others, one after the other, and looks at them.
# frame WIDTH NAME...: writes frame.html
frame() {
  local width=$1
  shift
  {
    echo '<!DOCTYPE html><title>pages</title><body><script>'
    echo "const width = $width, names = [$(printf '"%s",' "$@")];"
    cat <<'SCRIPT'
const found = [];
const name_of = text => text.textContent.trim().slice(0, 40);
function look(name, page) {
  const root = page.documentElement;
  if (root.scrollWidth > root.clientWidth) found.push(`${name}: wider than its window, ${root.scrollWidth} of ${root.clientWidth}`);
  for (const picture of page.querySelectorAll("svg")) {
    const outer = picture.getBoundingClientRect();
    const texts = [...picture.querySelectorAll("text")].map(text => [text, text.getBoundingClientRect()]);
    for (const [text, box] of texts)
      if (box.left < outer.left - 1 || box.right > outer.right + 1 || box.top < outer.top - 1 || box.bottom > outer.bottom + 1)
        found.push(`${name}: cut off: ${name_of(text)}`);
    texts.forEach(([text, a], i) => {
      for (const [other, b] of texts.slice(i + 1))
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
          found.push(`${name}: ${name_of(text)} lies on ${name_of(other)}`);
    });
  }
}
async function all() {
  for (const name of names) {
    const frame = document.createElement("iframe");
    frame.width = width;
    frame.height = 900;
    await new Promise(done => {
      frame.onload = done;
      frame.src = name;
      document.body.append(frame);
    });
    look(name, frame.contentDocument);
    frame.remove();
  }
  document.body.innerHTML = `<pre>looked at ${names.length} pages\n${found.map(line => "FOUND " + line).join("\n")}</pre>`;
}
all();
SCRIPT
    echo '</script>'
  } >frame.html
}

# browse: what the browser made of frame.html is left in dom, and what it said in console
browse() {
  timeout 300 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --allow-file-access-from-files \
    --user-data-dir="$folder/profile" --virtual-time-budget=60000 --enable-logging=stderr --dump-dom \
    "file://$folder/frame.html" >dom 2>log || fail "$browser: $(tail -n 5 log)"
  grep -F ':CONSOLE' log >console || true
  grep -q "looked at" dom || fail "$browser looked at nothing: $(cat console) $(tail -n 5 log)"
}

# First that all this can fail: pages with each of the faults.
mkdir bad
echo '<!DOCTYPE html><title>bad</title><script>nonsense(</script>' >bad/script.html
echo '<!DOCTYPE html><title>bad</title><div style="width: 3000px">wide</div>' >bad/wide.html
echo '<!DOCTYPE html><title>bad</title><svg width="100" height="50"><text x="60" y="20">a long name</text></svg>' >bad/cut.html
echo '<!DOCTYPE html><title>bad</title><svg width="200" height="50"><text x="9" y="20">one</text><text x="12" y="22">two</text></svg>' \
  >bad/over.html
frame 1100 bad/*.html
browse
grep -q 'script\.html' console || fail "a script with an error was not noticed"
for fault in 'wide.html: wider' 'cut.html: cut off: a long name' 'over.html: one lies on two'; do
  grep -q "FOUND bad/$fault" dom || fail "not noticed: $fault: $(cat dom)"
done

for width in 1100 400; do
  frame "$width" pages/*.html
  browse
  [[ ! -s console ]] || fail "a message in the console: $(cat console)"
  ! grep FOUND dom || fail "in a window of $width pixels"
  echo "$(find pages -name '*.html' | wc -l) pages in a window of $width pixels: nothing wrong"
done
