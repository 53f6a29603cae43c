# make              every program into bin/
# make demo         install what is missing, build, run the main job
# make check        install what is missing, build, lint, test
# make install      programs, manual pages, completion, pipelines, configurations, examples below PREFIX
# make uninstall    remove them
# make docs         manual pages in build/man
# make test         the tests alone (units: build the unit tests)
# make lint         layers, tags, headers, clang, format, shell scripts
# make check-pypi   compare with Hydra and others, from PyPI
# make check-cluster jobs under a Slurm on this host (root; installs it)
# make fuzz         the decoders under libFuzzer
# make soak         kills, failing calls and full disks at random for SECONDS=600 (strace; root for the disks)
# make bench        this engine and PyTorch, side by side
# make accept       the main job for three seeds, with kills
# make compare      the methods of fine-tuning on lift, three seeds each
# make clean        remove what was built
# make help         this list
#
# Variables: PREFIX=/usr/local  DESTDIR=  CC=cc  CFLAGS=  V=1 (print commands)  DEV=1 (debug, warnings are errors)
#            SANITIZE=address,undefined or thread  CUDA=no (no plugin for GPUs)  CUDA_ARCH="80 90 100"
#            MPI=no (no plugin for several ranks)
CC       ?= cc
PREFIX   ?= /usr/local
VERSION   = 0.1.0

OPT       = -O3 -g
WARN      = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wwrite-strings -Wpointer-arith
PACKAGES  = libzmq msgpack hdf5 yaml-0.1 jansson libzip
ALL_C     = -std=c11 $(WARN) -Ilib -D_GNU_SOURCE -DMF_VERSION='"$(VERSION)"' -ffp-contract=off -fno-math-errno \
            $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null) $(OPT) $(CFLAGS) -MMD -MP
LIBS      = -Wl,--as-needed $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lhdf5_hl -lmujoco -lncursesw -lz -lpthread -lm

# For targets that call make again, on all cores where the caller has not said how many.
JOBS      = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

# A line for each file; V=1: the command instead; make -s: neither.
say = $(if $(V),,@$(if $(findstring s,$(firstword -$(MAKEFLAGS))),,printf '  %-4s %s\n' $(1) $(2);))

ifdef DEV
OPT       = -O1 -g3 -Werror
endif
ifdef SANITIZE
OPT      += -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
WARN     += -Wno-format-truncation # gcc 12 sees null destinations where a sanitizer only asks for them
endif

ROOMS     = series plot learn stage rl eval import flow nn cpu op graph dev env ranks demos run stream lang conf wire base
ROOM_A    = $(ROOMS:%=build/lib/%.a)
STAGES    = $(patsubst stages/%.c,bin/mf-%,$(wildcard stages/*.c))
UNITS     = $(patsubst tests/unit/%.c,build/tests/unit/%,$(wildcard tests/unit/test_*.c))
EMUS      = $(patsubst tests/emu/%.cc,build/tests/emu/%,$(wildcard tests/emu/test_*.cc))
ON_CUDA   = $(addprefix build/tests/unit/test_,op_rows ppo flow plan ditx ditx_rl clone op unet vit encoder op_torch optimizer fpo fusion ranks)
# More processes than cores, which wait busily for each other.
ALONE     = tests/cli/ranks.bats tests/cli/nccl.bats
BENCHES   = $(patsubst tests/bench/%.c,build/tests/bench/%,$(filter-out $(if $(MPICC),,tests/bench/ranks.c),$(wildcard tests/bench/*.c)))
NVCC     := $(if $(filter no,$(CUDA)),,$(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null))
MPICC    := $(if $(filter no,$(MPI)),,$(shell command -v mpicc))
PLUGINS   = $(if $(NVCC),build/lib/mf_cuda.so) $(if $(MPICC),build/lib/mf_mpi.so)
LINKED    = $(OPT) $(LDFLAGS) -o $@ $< -Wl,--start-group $(ROOM_A) -Wl,--end-group $(LIBS)
LINK      = $(CC) $(LINKED)

all: $(STAGES) $(PLUGINS)

bin/mf-%: build/stages/%.o $(ROOM_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(LINK)

build/tests/%: build/tests/%.o $(ROOM_A)
	$(call say,LD,$@)$(LINK)

# An archive per room. A file more in a table's folder is a row more in the table.
define room
build/lib/$(1).a: $(patsubst %.c,build/%.o,$(wildcard lib/$(1)/*.c)) $(if $(filter $(1),env nn rl cpu dev conf),build/$(1)_table.o) $(patsubst %.xml,build/%_xml.o,$(wildcard lib/$(1)/*.xml))
	@mkdir -p $$(@D); rm -f $$@
	$$(call say,AR,$$@)$$(AR) rcs $$@ $$(filter %.o,$$^)
endef
$(foreach r,$(ROOMS),$(eval $(call room,$(r))))

# lib/env/env_NAME.c defines mf_env_NAME, lib/nn/net_NAME.c mf_net_NAME, lib/cpu/fast_NAME.c mf_fast_NAME,
# lib/cuda/kernel_NAME.cu mf_kernel_NAME, fusion_NAME.cu mf_fusion_NAME, lib/*/device_NAME.c mf_device_NAME: the files
# are the table. conf has the names of the networks.
build/%_table.c: Makefile lib/table.sh lib/env lib/nn lib/rl lib/cpu lib/cuda
	@mkdir -p $(@D)
	@sh lib/table.sh $* >$@

# A model stays a readable file and travels in the program: lib/env/lift.xml is the string mf_lift_xml.
build/%_xml.c: %.xml
	@mkdir -p $(@D)
	@{ echo 'extern const char mf_$(*F)_xml[];'; echo 'const char mf_$(*F)_xml[] ='; \
	   sed 's/[\"]/\\&/g; s/.*/    "&\\n"/' $<; echo '    ;'; } >$@

# Everything is rebuilt when the flags change, generated files included.
build/flags: force
	@mkdir -p $(@D)
	@echo '$(CC) $(ALL_C) $(LDFLAGS)' | cmp -s - $@ || echo '$(CC) $(ALL_C) $(LDFLAGS)' >$@

build/%.o: %.c build/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_C) $(SIMD) -c -o $@ $<

# The inner loops of the cpu device are compiled once per instruction set, and picked at run time.
AVX512 = -mavx512f -mavx512vl -mavx512dq -mfma
build/lib/cpu/kern_base.o: SIMD = -Wno-psabi
build/lib/cpu/kern_avx2.o: SIMD = -Wno-psabi -mavx2 -mfma
build/lib/cpu/kern_avx512.o: SIMD = -Wno-psabi $(AVX512)
build/lib/cpu/kern_avx512_bf16.o: SIMD = -Wno-psabi $(AVX512) -mavx512bf16
# Loops that choose between numbers become vectors only where a comparison may be made in vain; no number changes.
build/lib/env/rays.o build/lib/env/farthest.o: SIMD = -fno-trapping-math

build/%.o: build/%.c build/flags
	$(call say,CC,$<)$(CC) $(ALL_C) -c -o $@ $<

# The plugin for GPUs, which programs load for device=cuda: by nvcc where there is one; and for the tests the same files
# by g++, over an emulator of what CUDA they use (tests/emu).
KNOWN    := $(if $(NVCC),$(shell $(NVCC) --list-gpu-arch))
CUDA_ARCH = $(foreach a,80 90 100,$(if $(filter compute_$a,$(KNOWN)),$a))
CUDA_OBJ  = $(patsubst lib/cuda/%.cu,%.o,$(wildcard lib/cuda/*.cu)) table.o err.o local.o
IN_CUDA   = -O3 -Ilib -DMF_VERSION='"$(VERSION)"' -MMD -MP
BY_NVCC   = $(NVCC) -x $(LANGUAGE) -std=$(STD) $(IN_CUDA) -fmad=false --extended-lambda --threads 0 -Xcompiler -fPIC,-Wall,-Wextra,-Wno-missing-field-initializers \
            --Werror all-warnings -Ilib/cuda/gpu $(foreach a,$(ARCHS),-gencode arch=compute_$(firstword $(ARCHS)),code=sm_$a) \
            -gencode arch=compute_$(firstword $(ARCHS)),code=compute_$(firstword $(ARCHS))
# Headers take most of the time. So they are read once for all architectures, as for the first of them; as C++14 where
# that will do, which has half as many of them; and where there are no kernels by the host's compiler alone. Clusters, in
# few.cu, begin at 90: no GPU below asks for them.
STD       = c++14
ARCHS     = $(CUDA_ARCH)
LANGUAGE  = cu
build/cuda/gemm.o build/cuda/few.o: STD = c++17
build/cuda/few.o: ARCHS = $(or $(filter-out 8%,$(CUDA_ARCH)),90)
$(patsubst %,build/cuda/%.o,device exchange fuse join nccl nvml program run store table): LANGUAGE = c++
FMA      := $(shell grep -qswm1 fma /proc/cpuinfo && echo -mfma)
BY_GXX    = $(CXX) -std=c++17 $(IN_CUDA) -O1 -g -Wall -Wextra -Wno-missing-field-initializers -Werror -ffp-contract=off -fPIC -Wno-unknown-pragmas -Itests/emu \
            $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all,-fsanitize=alignment -fsanitize-undefined-trap-on-error) \
            $(FMA) -x c++

build/lib/mf_cuda.so: $(CUDA_OBJ:%=build/cuda/%)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(NVCC) -shared -o $@ $^

build/emu/mf_cuda.so: $(CUDA_OBJ:%=build/emu/%)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(SANITIZE:%=-fsanitize=%) -shared -o $@ $^

# In the place of NCCL, on the emulator.
build/emu/libnccl.so.2: tests/emu/nccl.cc build/flags
	@mkdir -p $(@D)
	$(call say,EMU,$<)$(BY_GXX) -shared -o $@ $<

build/cuda/%.o: lib/cuda/%.cu build/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)$(BY_NVCC) -c -o $@ $<

build/emu/%.o: lib/cuda/%.cu build/flags
	@mkdir -p $(@D)
	$(call say,EMU,$<)$(BY_GXX) -c -o $@ $<

build/cuda/table.o: build/cuda_table.c
	@mkdir -p $(@D)
	$(call say,NVCC,$<)$(BY_NVCC) -c -o $@ $<

build/emu/table.o: build/cuda_table.c
	@mkdir -p $(@D)
	$(call say,EMU,$<)$(BY_GXX) -c -o $@ $<

build/cuda/err.o build/emu/err.o: lib/base/err.c build/flags
build/cuda/local.o build/emu/local.o: lib/ranks/local.c build/flags
build/cuda/err.o build/emu/err.o build/cuda/local.o build/emu/local.o:
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_C) -fPIC -c -o $@ $<

# The plugin for several ranks, which mf-ppo and mf-bc load when mpirun starts them: where there is mpicc.
build/lib/mf_mpi.so: $(patsubst %,build/mpi/lib/%.o,mpi/mpi base/err base/mem)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(MPICC) $(OPT) $(LDFLAGS) -shared -o $@ $^

build/tests/bench/ranks: build/mpi/tests/bench/ranks.o $(ROOM_A)
	$(call say,LD,$@)$(MPICC) $(LINKED)

build/mpi/%.o: %.c build/flags
	@mkdir -p $(@D)
	$(call say,MPI,$<)$(MPICC) $(ALL_C) -fPIC -c -o $@ $<

# Tests of its parts, on the emulator.
build/tests/emu/%.o: tests/emu/%.cc build/flags
	@mkdir -p $(@D)
	$(call say,EMU,$<)$(BY_GXX) -c -o $@ $<

build/tests/emu/%: build/tests/emu/%.o $(CUDA_OBJ:%=build/emu/%) $(ROOM_A)
	$(call say,LD,$@)$(CXX) $(SANITIZE:%=-fsanitize=%) -o $@ $(filter %.o,$^) \
	    -Wl,--start-group $(ROOM_A) -Wl,--end-group -lpthread -ldl -lm

units: $(UNITS) $(EMUS)

# What the tests run, without the installing: for those who build here every day.
test: export LSAN_OPTIONS = suppressions=$(CURDIR)/tests/cli/leaks.supp:print_suppressions=0
test: all $(UNITS) $(EMUS) build/emu/mf_cuda.so build/emu/libnccl.so.2
	prove -j2 -f -e '' $(UNITS) $(EMUS)
	prove -j2 -e tests/emu/run $(ON_CUDA)
	prove -j4 -f -o --timer -e 'bats --tap' $(filter-out $(ALONE),$(wildcard tests/cli/*.bats))
	prove -f -o -e 'bats --tap' $(ALONE)

check: setup
	$(MAKE) lint
	$(MAKE) $(JOBS) all units build/emu/mf_cuda.so build/emu/libnccl.so.2
	$(MAKE) test

# Against packages that Debian has not: tests/pypi/GROUP.txt goes to build/venv/GROUP, from PyPI.
check-pypi: all $(patsubst tests/pypi/%.txt,build/venv/%/made,$(wildcard tests/pypi/*.txt))
	prove -f -o -e 'bats --tap' $(wildcard tests/pypi/*.bats)

# On a slurmctld and slurmd of its own, on loopback.
check-cluster: all
	@pipelines/setup slurmctld slurmd slurm-client munge
	prove -f -o -e 'bats --tap' $(wildcard tests/cluster/*.bats)

build/venv/%/made: tests/pypi/%.txt
	python3 -m venv --clear build/venv/$*
	build/venv/$*/bin/pip install -q --disable-pip-version-check $$(sed -n 's/^# pip: //p' $<) -r $<
	@touch $@

demo: setup
	$(MAKE) $(JOBS) all
	pipelines/demo

setup:
	@pipelines/setup

lint:
	tests/lint/all

bench: all $(BENCHES)
	tests/bench/run

accept: all
	pipelines/accept

METHODS   = ppo_flow_noise $(filter-out ppo_flow_noise,$(basename $(notdir $(wildcard configs/method/*.yaml))))
compare: all
	pipelines/compare env=lift --methods "$(METHODS)" --seeds "0 1 2"

fuzz: all
	tests/fuzz/run

soak: all
	nice tests/soak/run $(or $(SECONDS),600)

# A manual page for each program, from its own --help; the examples as they are, for help2man would fill their lines.
docs: $(STAGES:bin/%=build/man/%.1)

build/man/%.1: bin/%
	@mkdir -p $(@D)
	$(call say,MAN,$@)help2man --no-info --name "$$($< --help | sed -n 2p)" $< | sed '/^\.SH EXAMPLES/,$$d' >$@.part && \
	    { echo .SH EXAMPLES; echo .nf; $< --help | sed '1,/^Examples:/d; s/^  //; s/\\/\\e/g; s/-/\\-/g; s/^[.'"'"']/\\\&&/'; } >>$@.part && \
	    mv $@.part $@

# Pipelines find programs, configurations and examples beside their own folder, here and where they are installed.
TO        = $(DESTDIR)$(PREFIX)
SHARE     = $(TO)/share/maniflow
PIPELINES = $(filter-out %/setup %/accept %.bash,$(wildcard pipelines/*))

install: all docs
	$(call say,INST,"$(TO)")install -D -t "$(TO)/bin" bin/mf-*
	@install -D -m 644 -t "$(TO)/share/man/man1" build/man/*.1
	@for p in $(PLUGINS); do install -D -t "$(TO)/lib/maniflow" "$$p"; done
	@for p in $(STAGES:bin/%=%); do \
	    install -D -m 644 share/completion.bash "$(TO)/share/bash-completion/completions/$$p"; done
	@install -D -t "$(SHARE)/pipelines" $(PIPELINES) && install -m 644 -t "$(SHARE)/pipelines" pipelines/*.bash
	@find configs examples -name __pycache__ -prune -o -type f ! -perm -u+x -exec install -D -m 644 {} "$(SHARE)/{}" \;
	@find configs examples -name __pycache__ -prune -o -type f -perm -u+x -exec install -D {} "$(SHARE)/{}" \;
	@ln -sfn ../../bin "$(SHARE)/bin"

uninstall:
	rm -f $(STAGES:bin/%="$(TO)/bin/%") $(STAGES:bin/%="$(TO)/share/man/man1/%.1")
	rm -f $(STAGES:bin/%="$(TO)/share/bash-completion/completions/%")
	rm -rf "$(SHARE)" "$(TO)/lib/maniflow"

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

clean:
	rm -rf build bin/mf-*

-include $(shell find build -name '*.d' 2>/dev/null)
.PHONY: help uninstall docs all units test check check-pypi check-cluster demo setup lint bench accept compare fuzz soak install clean force
.SECONDARY:
.DELETE_ON_ERROR:
