#!/usr/bin/env bash
# check_isa_objects.sh BUILD: code compiled for one instruction set must not reach a CPU without it.
# The linker keeps one copy of each weak symbol, whoever compiled it, so an object of src/kernels/{scalar,avx2,avx512,
# avx512_bf16} has no weak symbol and exports one thing, its table. All other objects hold no AVX instruction.
set -u
build=${1:?usage: check_isa_objects.sh BUILD}
status=0
seen=0

fail() {
  echo "$1"
  status=1
}

is_kernel_of_an_isa() { [[ $1 =~ /src/kernels/(scalar|avx2|avx512|avx512_bf16)/[^/]*\.cpp\.o$ ]]; }

while IFS= read -r object; do
  name=${object#"$build"/}
  if is_kernel_of_an_isa "$object"; then
    seen=$((seen + 1))
    symbols=$(nm -C --defined-only "$object") || fail "$name: nm failed"
    weak=$(grep -E '^[0-9a-f]* [WwVvu] ' <<<"$symbols")
    [ -z "$weak" ] || fail "$name: weak symbols, for example"$'\n'"$(head -n 3 <<<"$weak")"
    exported=$(grep -E '^[0-9a-f]+ [TDRBGS] ' <<<"$symbols")
    [[ $exported =~ ^[0-9a-f]+\ [DRB]\ fourfold::k[A-Za-z0-9]+(Kernels|Products)$ ]] ||
      fail "$name: exports must be its table alone, but are"$'\n'"$exported"
  fi
  # Every AVX instruction has a name with v and works on an xmm, ymm or zmm register or a mask register.
  case $object in
    */src/kernels/avx2/*) found=$(objdump -d --no-show-raw-insn "$object" | grep -m1 -E '%zmm|%k[0-7]') ;;
    */src/kernels/avx512/* | */src/kernels/avx512_bf16/*) found="" ;;
    *) found=$(objdump -d --no-show-raw-insn "$object" | grep -m1 -E $'\tv[a-z0-9]+ .*%[xyz]mm|%k[0-7]|\tvzero') ;;
  esac
  [ -z "$found" ] || fail "$name: an instruction that not every CPU has: $found"
done < <(find "$build/CMakeFiles" -path '*.dir/src/*' -name '*.cpp.o' 2>/dev/null | sort)

[ "$seen" -ge 1 ] || fail "no kernel objects under $build/CMakeFiles: is it built?"
exit $status
