// Loads a library, and compares it with its file. It compares each byte of executable segments that
// is no code. It also compares each word that a relocation of kind R_X86_64_RELATIVE has set.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const Elf64_Ehdr *file;
static const Elf64_Shdr *sections;

static int is_code(Elf64_Addr address) {
    for (int i = 0; i < file->e_shnum; i++) {
        const Elf64_Shdr *section = &sections[i];
        if ((section->sh_flags & SHF_EXECINSTR) && address >= section->sh_addr &&
            address < section->sh_addr + section->sh_size)
            return 1;
    }
    return 0;
}

static int compare(struct dl_phdr_info *object, size_t size, void *base) {
    (void)size;
    if (object->dlpi_addr != *(ElfW(Addr) *)base)
        return 0;
    long data = 0, words = 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const Elf64_Phdr *segment = &object->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || segment->p_flags & PF_W)
            continue;
        const unsigned char *memory = (void *)(object->dlpi_addr + segment->p_vaddr);
        const unsigned char *bytes = (const unsigned char *)file + segment->p_offset;
        for (size_t at = 0; at < segment->p_filesz; at++)
            data += memory[at] != bytes[at] && !is_code(segment->p_vaddr + at);
    }
    for (int i = 0; i < file->e_shnum; i++) {
        const Elf64_Shdr *section = &sections[i];
        if (section->sh_type != SHT_RELA || !(section->sh_flags & SHF_ALLOC))
            continue;
        const Elf64_Rela *entry = (void *)((const char *)file + section->sh_offset);
        for (size_t k = 0; k < section->sh_size / sizeof *entry; k++, entry++)
            if (ELF64_R_TYPE(entry->r_info) == R_X86_64_RELATIVE)
                words += *(Elf64_Addr *)(object->dlpi_addr + entry->r_offset) !=
                         object->dlpi_addr + entry->r_addend;
    }
    printf("%ld bytes of data changed, %ld words are wrong\n", data, words);
    return 1;
}

int main(int count, char **arguments) {
    void *library = count > 1 ? dlopen(arguments[1], RTLD_LAZY) : NULL;
    int descriptor = count > 1 ? open(arguments[1], O_RDONLY) : -1;
    struct stat status;
    struct link_map *map;
    if (!library || fstat(descriptor, &status) || dlinfo(library, RTLD_DI_LINKMAP, &map)) {
        fprintf(stderr, "cannot load the library\n");
        return 1;
    }
    file = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    sections = (void *)((const char *)file + file->e_shoff);
    return !dl_iterate_phdr(compare, &map->l_addr);
}
